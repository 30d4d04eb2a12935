import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NO_SPECULATING } from "../../gpu-backend/engine/speculation/speculating.ts";
import type { GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { EngineClient } from "../../gpu-backend/engine-client.ts";
import { isTerminal } from "../../gpu-backend/thread-messages.ts";
import { aGenerateRequest, aScheduling } from "../support/engine-builders.ts";
import { ENGINE_START_MS_MAX } from "../support/running-engine.ts";

const MODEL = fileURLToPath(new URL("../../gpu-backend/models/sluice-tiny", import.meta.url));

let engine: EngineClient;
beforeAll(async () => {
  engine = new EngineClient({
    thread: {
      modelDirectory: MODEL,
      precision: "int8",
      kvPrecision: undefined,
      runtime: "wasm",
      blockTokens: 16,
      blockCount: 256,
      batchTokensMax: 128,
      sequencesMax: 4,
      queueMax: 8,
      prefixCache: true,
      scheduling: aScheduling(),
      speculating: NO_SPECULATING,
    },
  });
  await engine.loaded;
}, ENGINE_START_MS_MAX);
afterAll(() => engine.close("The test is over"));

/** Sends a request; `onToken` hears of its tokens, and the promise resolves with its end. */
function serve(request: GenerateRequest, onToken: () => void): Promise<unknown> {
  return new Promise((resolve) => {
    engine.submit(request, (event) => {
      if (event.kind === "token") onToken();
      if (isTerminal(event)) resolve(event);
    });
  });
}

test("a stream goes on, token by token, while the schema of another request is compiled", async () => {
  let streamed = 0;
  let streamedBefore: number | undefined;
  const free = serve(
    aGenerateRequest({ id: "free", outputTokensMax: 1500, stopTokenIds: [] }),
    () => {
      streamed += 1;
    },
  );
  const schema = JSON.stringify({ type: "string", minLength: 1, maxLength: 150 });
  const constrained = serve(
    aGenerateRequest({
      id: "constrained",
      outputTokensMax: 8,
      stopTokenIds: [],
      constraint: { kind: "json-schema", schema },
    }),
    () => (streamedBefore ??= streamed),
  );
  expect(await constrained).toMatchObject({ kind: "finished", outputTokens: 8 });
  // Compiled between two steps it would have let one token pass, or two.
  expect(streamedBefore).toBeGreaterThan(10);
  engine.cancel("free");
  expect(await free).toMatchObject({ kind: "finished" });
});
