import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BUNDLED_DRAFT } from "../../gpu-backend/settings.ts";
import type { ConstraintSpec } from "../../gpu-backend/engine/generate-request.ts";
import {
  NO_SPECULATING,
  type Speculating,
} from "../../gpu-backend/engine/speculation/speculating.ts";
import { loadTokenizer, type Tokenizer } from "../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { EngineClient } from "../../gpu-backend/engine-client.ts";
import { type EngineEvent, isTerminal } from "../../gpu-backend/thread-messages.ts";
import { aGenerateRequest, aSampling, aScheduling } from "../support/engine-builders.ts";
import { ENGINE_START_MS_MAX } from "../support/running-engine.ts";

const MODEL = fileURLToPath(new URL("../../gpu-backend/models/sluice-tiny", import.meta.url));
const PROMPT = "<|bos|><|user|>Tell me of a fox named Lily.<|end|><|assistant|>";
const END_TOKENS = [1, 5];
const SCHEMA = {
  type: "object",
  properties: { name: { enum: ["Lily", "Tom"] }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

/** Several guesses a token, so that grammars are tried with many that do not hold. */
const GUESSING = { mode: "auto", draftTokensMax: 6, draftModelDirectory: BUNDLED_DRAFT } as const;

let engine: EngineClient;
let guessingEngine: EngineClient;
let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await loadTokenizer(MODEL);
  engine = anEngineWith(NO_SPECULATING);
  guessingEngine = anEngineWith(GUESSING);
  await Promise.all([engine.loaded, guessingEngine.loaded]);
}, ENGINE_START_MS_MAX);
afterAll(() =>
  Promise.all([engine.close("The test is over"), guessingEngine.close("The test is over")]),
);

function anEngineWith(speculating: Speculating): EngineClient {
  return new EngineClient({
    thread: {
      modelDirectory: MODEL,
      precision: "int8",
      kvPrecision: undefined,
      runtime: "wasm",
      blockTokens: 16,
      blockCount: 64,
      batchTokensMax: 128,
      sequencesMax: 4,
      queueMax: 8,
      prefixCache: true,
      scheduling: aScheduling(),
      speculating,
    },
  });
}

/** Serves one request to its end; resolves with all that it heard. */
function serve(
  id: string,
  constraint?: ConstraintSpec,
  { seed = 1, on = engine, temperature = 0.7 } = {},
): Promise<EngineEvent[]> {
  const heard: EngineEvent[] = [];
  const request = aGenerateRequest({
    id,
    promptTokens: tokenizer.encodePieces(tokenizer.specialTokens.split(PROMPT)),
    outputTokensMax: 60,
    sampling: aSampling({ temperature, seed }),
    logprobsTop: 1,
    ...(constraint !== undefined && { constraint }),
  });
  return new Promise((resolve) => {
    on.submit(request, (event) => {
      heard.push(event);
      if (isTerminal(event)) resolve(heard);
    });
  });
}

function textOf(events: readonly EngineEvent[]): string {
  const tokens = events.flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));
  expect(END_TOKENS).toContain(tokens.at(-1));
  return tokenizer.decode(tokens.slice(0, -1));
}

test("outputs follow their schemas and end where these are fulfilled, beside one without any", async () => {
  const schema: ConstraintSpec = { kind: "json-schema", schema: JSON.stringify(SCHEMA) };
  const [free, ...constrained] = await Promise.all([
    serve("free"),
    serve("a", schema, { seed: 2 }),
    serve("b", schema, { seed: 3 }),
  ]);
  expect(free?.at(-1)).toMatchObject({ kind: "finished", reason: "length" });
  for (const events of constrained) {
    expect(events.at(-1)).toMatchObject({ kind: "finished", reason: "stop" });
    const value: unknown = JSON.parse(textOf(events));
    expect(value).toEqual({ name: expect.stringMatching(/^(Lily|Tom)$/), age: expect.any(Number) });
  }
});

test("a schema that cannot be followed refuses its own request and no other", async () => {
  const broken: ConstraintSpec = {
    kind: "json-schema",
    schema: '{"type":"number","multipleOf":7}',
  };
  const [refused, served] = await Promise.all([serve("bad", broken), serve("good")]);
  expect(refused).toMatchObject([{ kind: "refused", reason: "constraint-refused" }]);
  expect(refused[0]).toMatchObject({ message: expect.stringContaining("multipleOf") });
  expect(served.at(-1)).toMatchObject({ kind: "finished", outputTokens: 60 });
  expect(engine.condition).toBe("serving");
});

test("outputs are the same where they are guessed, whatever their schemas make of the guesses", async () => {
  const schema: ConstraintSpec = { kind: "json-schema", schema: JSON.stringify(SCHEMA) };
  const list: ConstraintSpec = {
    kind: "json-schema",
    schema: JSON.stringify({ type: "array", items: SCHEMA, minItems: 3 }),
  };
  const cases = [undefined, schema, list, list, { kind: "json-object" } as const];
  const answersOf = (on: EngineClient) =>
    Promise.all(
      cases.map(async (constraint, index) => {
        const terms = { seed: index, on, temperature: index % 2 === 0 ? 0 : 0.7 };
        const heard = await serve(`case-${index}`, constraint, terms);
        return heard.filter(({ kind }) => kind !== "started");
      }),
    );
  const [plain, guessed] = await Promise.all([answersOf(engine), answersOf(guessingEngine)]);
  expect(guessed).toEqual(plain);
  expect(guessingEngine.load?.drafts.draftTokens).toBeGreaterThan(0);
  expect(engine.load?.drafts.drafts).toBe(0);
});
