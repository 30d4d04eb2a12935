import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { EngineHold } from "../../support/engine-hold.mjs";
import { type FakePool, startFakePool } from "../../support/fake-pool.ts";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  readCompletion,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const hold = new EngineHold();
let pool: FakePool;
let engine: TestEngine;
beforeAll(async () => {
  pool = await startFakePool();
  const flags = ["--max-sequences", "2", "--pool-url", pool.url, "--role", "prefill"];
  const advertised = ["--advertise-url", "https://replica.example:8443"];
  engine = await startEngine([...flags, ...advertised], "a-secret-of-these-tests", hold);
}, ENGINE_START_MS_MAX);
afterEach(() => hold.letGo());
afterAll(async () => {
  await engine.stop();
  await pool.close();
});

/** Waits for a report that is as wanted, from now on or before. */
async function reported(
  what: string,
  isWanted: (report: ReplicaReport) => boolean,
): Promise<ReplicaReport> {
  let found: ReplicaReport | undefined;
  await engine.stepUntil(what, () => {
    found = pool.connections[0]?.frames.findLast(
      (frame): frame is ReplicaReport => frame.kind === "report" && isWanted(frame),
    );
    return found !== undefined;
  });
  if (found === undefined) throw new Error("unreachable");
  return found;
}

test("an idle engine says who it is, what it holds, and how fast its warm-up was", async () => {
  const report = await reported("a first report", () => true);
  expect(pool.connections[0]?.frames[0]).toMatchObject({
    kind: "hello",
    endpointUrl: "https://replica.example:8443",
    modelId: "sluice-tiny",
    contextTokens: 2048,
    blockTokens: 16,
    blockCount: 256,
    sequencesMax: 2,
    queueMax: 64,
    batchTokensMax: 256,
    keepsTbt: false,
    role: "prefill",
  });
  expect(report).toMatchObject({
    queuedRequests: 0,
    runningRequests: 0,
    usedBlocks: 0,
    queuedUncachedTokens: 0,
    queuedAttendedPairs: 0,
    runningKvTokens: 0,
    waitingKvTokens: 0,
    speedRatio: 1,
    prefillTimeRatio: 0,
    tightestTbtMs: null,
    lastDispatch: null,
    draining: false,
  });
  expect(report.prefillTokensPerSecond).toBeGreaterThan(1);
  expect(report.stepMs).toBeGreaterThan(0);
  expect(report.step.tokenMs).toBeGreaterThan(0);
});

test("a busy engine reports what runs and waits, the tightest promise and the last dispatch", async () => {
  const abort = new AbortController();
  hold.hold();
  const answers = [1, 2, 3].map((number) => {
    const headers = { "x-gw-dispatch": `life.${number}`, "x-gw-tbt-ms": String(100 * number) };
    return engine.chat(LONG_TASK, { headers, signal: abort.signal }).catch(() => undefined);
  });
  const busy = await reported("two run and one waits", (report) => {
    return report.runningRequests === 2 && report.queuedRequests === 1;
  });
  expect(busy.usedBlocks).toBeGreaterThan(1);
  expect(busy.queuedUncachedTokens).toBeGreaterThan(0);
  expect(busy.queuedAttendedPairs).toBeGreaterThan(busy.queuedUncachedTokens);
  expect(busy.runningKvTokens).toBeGreaterThan(0);
  expect(busy.waitingKvTokens).toBeGreaterThan(0);
  expect(busy.tightestTbtMs).toBe(100);
  expect(busy.lastDispatch).toEqual({ epoch: "life", number: 3 });
  abort.abort();
  hold.letGo();
  await Promise.all(answers);
  const calm = await reported("nothing runs again", (report) => {
    return report.sequence > busy.sequence && report.runningRequests === 0;
  });
  expect(calm).toMatchObject({ usedBlocks: 0, tightestTbtMs: null, runningKvTokens: 0 });
  expect(calm.prefillTimeRatio).toBeGreaterThan(0);
  await reported("prefill is long ago", (report) => {
    return report.sequence > calm.sequence && report.prefillTimeRatio < calm.prefillTimeRatio / 2;
  });
});

test("a dispatch that was refused has arrived as well", async () => {
  const refused = await engine.chat({ temperature: 9 }, { headers: { "x-gw-dispatch": "life.7" } });
  expect(refused.status).toBe(400);
  await reported("dispatch 7 arrived", (report) => report.lastDispatch?.number === 7);
});

test("sequences of reports have no gap, however many requests come", async () => {
  await readCompletion(await engine.chat({ temperature: 0 }));
  const frames = pool.connections[0]?.frames.slice(1) ?? [];
  const sequences = frames.flatMap((frame) => (frame.kind === "report" ? frame.sequence : []));
  expect(sequences).toEqual(sequences.map((_, index) => index + 1));
});
