import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { EngineHold } from "../../support/engine-hold.mjs";
import { eventually } from "../../support/eventually.ts";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  readCompletion,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const hold = new EngineHold();
let engine: TestEngine;
/** How many tokens the whole answer has, most of which are never to be made. */
let fullTokens: number;
beforeAll(async () => {
  engine = await startEngine(["--max-sequences", "2"], undefined, hold);
  const whole = await readCompletion(await engine.chat(LONG_TASK));
  fullTokens = whole.usage.completion_tokens;
}, ENGINE_START_MS_MAX);
afterEach(() => hold.letGo());
afterAll(() => engine.stop());

/** The line that the log has of the last request that ended. */
function lastEnding() {
  return engine.log.findLast((line) => line["event"] === "request-ended");
}

test("a client that leaves in the middle of a stream frees its blocks at once", async () => {
  const before = await engine.metric("engine_generation_tokens_total");
  const abort = new AbortController();
  hold.hold();
  const response = await engine.chat({ ...LONG_TASK, stream: true }, { signal: abort.signal });
  const reader = response.body?.getReader();
  await reader?.read();
  expect(await engine.metric("engine_kv_cache_usage_perc")).toBeGreaterThan(0);
  abort.abort();
  expect(await engine.idleKvUsage()).toBe(0);
  const generatedTokens = (await engine.metric("engine_generation_tokens_total")) - before;
  expect(generatedTokens).toBeLessThan(fullTokens / 2);
  expect(lastEnding()).toMatchObject({ outcome: "cancelled" });
});

test("a client that leaves while it waits for a whole answer frees its blocks at once", async () => {
  const before = await engine.metric("engine_generation_tokens_total");
  const abort = new AbortController();
  hold.hold();
  const gone = engine.chat(LONG_TASK, { signal: abort.signal }).catch((error: unknown) => error);
  await eventually("the request runs", async () => {
    return (await engine.metric("engine_num_requests_running")) === 1;
  });
  abort.abort();
  expect(await gone).toBeInstanceOf(DOMException);
  expect(await engine.idleKvUsage()).toBe(0);
  const generatedTokens = (await engine.metric("engine_generation_tokens_total")) - before;
  expect(generatedTokens).toBeLessThan(fullTokens / 2);
  expect(lastEnding()).toMatchObject({ outcome: "cancelled" });
});

test("a client that leaves while it is queued is never computed", async () => {
  const { usage } = await readCompletion(await engine.chat({ ...LONG_TASK, max_tokens: 1 }));
  const before = await engine.metric("engine_prompt_tokens_total");
  hold.hold();
  const aborts = Array.from({ length: 3 }, () => new AbortController());
  const answers = aborts.map(({ signal }) =>
    engine.chat(LONG_TASK, { signal }).catch((error: unknown) => error),
  );
  await engine.stepUntil("two run and one waits", async () => {
    const running = await engine.metric("engine_num_requests_running");
    return running === 2 && (await engine.metric("engine_num_requests_waiting")) === 1;
  });
  aborts[2]?.abort();
  await engine.stepUntil("none waits", async () => {
    return (await engine.metric("engine_num_requests_waiting")) === 0;
  });
  for (const abort of aborts) abort.abort();
  await Promise.all(answers);
  expect(await engine.idleKvUsage()).toBe(0);
  const promptTokens = (await engine.metric("engine_prompt_tokens_total")) - before;
  expect(promptTokens).toBeLessThanOrEqual(2 * usage.prompt_tokens);
});

test("a client that leaves while it sends its request is forgotten", async () => {
  const { hostname, port } = new URL(engine.url);
  const socket = connect(Number(port), hostname);
  socket.write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
  await eventually("its request arrived", () => socket.bytesWritten > 0);
  socket.destroy();
  expect((await engine.chat({ max_tokens: 1 })).status).toBe(200);
});

test("a disconnect is no error of the engine", async () => {
  expect(engine.log.filter((line) => line["level"] === "error")).toEqual([]);
  await expect(engine.metric('engine_request_errors_total{code="internal_error"}')).rejects.toThrow(
    "There is no metric",
  );
});
