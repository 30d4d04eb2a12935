import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SseFrame } from "../../src/protocol/sse.ts";
import { eventually } from "../support/eventually.ts";
import type { EngineProbe } from "./support/engine-probe.ts";
import { RunningStack } from "./support/running-stack.ts";

/** The tenant of `sluice.local.yaml` whose answers go on. */
const TENANT = "chat";
/** So long that its engine is found and killed while it is written. */
const STORY = {
  temperature: 0.8,
  seed: 11,
  max_tokens: 400,
  ignore_eos: true,
  stream_options: { include_usage: true },
};
const SCHEMA = {
  type: "object",
  properties: { story: { type: "array", items: { type: "string", maxLength: 30 }, minItems: 40 } },
  required: ["story"],
  additionalProperties: false,
};
const AS_JSON = {
  response_format: { type: "json_schema", json_schema: { name: "a", schema: SCHEMA } },
};
const RUN_MS_MAX = 120_000;

/** What a client makes of a stream: everything but the instants and the names of the answer. */
function answerOf(frames: readonly SseFrame[]) {
  const chunks = frames.filter(({ data }) => data !== "[DONE]").map(({ data }) => JSON.parse(data));
  const choices = chunks.flatMap((chunk) => chunk.choices ?? []);
  const usage = chunks.findLast((chunk) => chunk.usage)?.usage;
  return {
    text: choices.map(({ delta }) => delta.content ?? "").join(""),
    roles: choices.flatMap(({ delta }) => delta.role ?? []),
    finishReasons: choices.flatMap(({ finish_reason: reason }) => reason ?? []),
    counts: [usage?.prompt_tokens, usage?.completion_tokens],
    names: new Set(chunks.map(({ id }) => id)).size,
    ends: frames.filter(({ data, event }) => data === "[DONE]" || event !== undefined),
  };
}

describe("an answer whose engine is lost", () => {
  let stack: RunningStack;
  beforeAll(async () => {
    stack = await RunningStack.ready();
  });
  afterAll(() => stack?.dispose());

  async function whenAllIdle(): Promise<void> {
    await stack.whenAllReady();
    await stack.whenIdle();
  }

  async function findRunning(): Promise<EngineProbe> {
    for (const engine of stack.engines) {
      // oxlint-disable-next-line no-await-in-loop
      if ((await engine.metric("engine_num_requests_running")) > 0) return engine;
    }
    throw new Error("No engine runs a request");
  }

  /** Reads an answer; `lose` is called in the middle of it, with the engine that writes it. */
  async function read(body: object, lose?: (engine: EngineProbe) => void): Promise<SseFrame[]> {
    const frames: SseFrame[] = [];
    for await (const frame of stack.streamStory(TENANT, body)) {
      frames.push(frame);
      if (frames.length === 3) lose?.(await findRunning());
    }
    return frames;
  }

  test.each([
    ["drawn", STORY],
    ["held to a schema", { ...STORY, ...AS_JSON }],
  ])(
    "by kill -9 is the one that it would have been: %s",
    { timeout: RUN_MS_MAX },
    async (_, body) => {
      await whenAllIdle();
      const whole = answerOf(await read(body));
      let killed: EngineProbe | undefined;
      const frames = await read(body, (engine) => {
        killed = engine;
        process.kill(engine.pid, "SIGKILL");
      });
      expect(killed).toBeDefined();
      expect(answerOf(frames)).toEqual(whole);
      expect(whole).toMatchObject({ names: 1, roles: ["assistant"], ends: [{ data: "[DONE]" }] });
      expect(whole.text.length).toBeGreaterThan(100);
      await eventually("it is counted", async () => {
        const text = await stack.metrics();
        const pattern = /^gw_continuations_total\{[^}]*result="completed"[^}]*\} [1-9]/m;
        return pattern.test(text);
      });
    },
  );

  test("because it is frozen is so as well", { timeout: RUN_MS_MAX }, async () => {
    await whenAllIdle();
    const whole = answerOf(await read(STORY));
    let frozen: EngineProbe | undefined;
    const frames = await read(STORY, (engine) => {
      frozen = engine;
      process.kill(engine.pid, "SIGSTOP");
    });
    if (frozen !== undefined) process.kill(frozen.pid, "SIGCONT");
    expect(answerOf(frames)).toEqual(whole);
  });
});
