import { describe, expect, test } from "vitest";
import { workOf } from "../../../gpu-backend/engine/batch-work.ts";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import { toReportedState } from "../../../gpu-backend/engine/reported-load.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import { StepModel } from "../../../src/step-cost/step-model.ts";
import {
  aGenerateRequest,
  anEngine,
  resultsOf,
  tokenRange,
} from "../../support/engine-builders.ts";
import {
  aHello,
  aReplica,
  aReport,
  aSentRequest,
  EPOCH,
  settingsOf,
} from "../../support/replica-builders.ts";

/** A fast machine: about 5 ms to begin with, 70,000 tokens of prefill a second. */
const STEP = {
  fixedMs: 4.4,
  tokenMs: 0.014,
  attendedPairMs: 1e-6,
  sequenceMs: 0.02,
  kvTokenMs: 3.2e-5,
};
const SHAPE = { sequencesMax: 64, batchTokensMax: 512, blockCount: 4096, blockTokens: 16 };
const BESIDE_LOAD = { lastDispatch: null, draining: false };

/** An engine with `decodes` answers under way and `prompts` of 1,000 tokens that have just come. */
function aBusyEngine(decodes: number, prompts: number): Engine {
  const engine = anEngine({ ...SHAPE, contextTokens: 8192, queueMax: 64 });
  for (let index = 0; index < decodes; index++) {
    const promptTokens = tokenRange(40, 100_000 * (index + 1));
    engine.submit(aGenerateRequest({ id: `d${index}`, promptTokens, outputTokensMax: 5000 }), 0);
  }
  for (let step = 0; step < 20; step++) runStep(engine);
  for (let index = 0; index < prompts; index++) {
    const promptTokens = tokenRange(1000, 10_000_000 + 10_000 * index);
    engine.submit(aGenerateRequest({ id: `p${index}`, promptTokens, outputTokensMax: 5000 }), 0);
  }
  return engine;
}

/** Runs one step, and returns how long the machine takes for it. */
function runStep(engine: Engine): number {
  const { batch } = engine.plan(0);
  if (batch === undefined) return 0;
  engine.commit(
    batch,
    resultsOf(
      batch,
      batch.rows.map(() => 7),
    ),
  );
  return new StepModel(STEP).predictMs(workOf(batch));
}

/** What a pool believes of an engine that has reported now. */
function replicaOf(engine: Engine): Replica {
  const measured = {
    step: STEP,
    speedRatio: 1,
    prefillTimeRatio: 0.5,
    prefillMeasuredAtMs: undefined,
    stepMs: 10,
    prefillTokensPerSecond: 70_000,
  };
  const replica = new Replica(settingsOf(0));
  replica.connect(aHello(0, SHAPE), 0);
  const state = toReportedState(engine.load(), measured, 0, BESIDE_LOAD);
  replica.report({ kind: "report", sequence: 1, ...state }, { epoch: EPOCH, nowMs: 0 });
  return replica;
}

describe("a report carried forward", () => {
  test.each([
    { decodes: 0, prompts: 4 },
    { decodes: 40, prompts: 20 },
    { decodes: 60, prompts: 1 },
  ])("follows what a real engine has left: $decodes decodes, $prompts prompts", (scene) => {
    const engine = aBusyEngine(scene.decodes, scene.prompts);
    const replica = replicaOf(engine);
    let nowMs = 0;
    let compared = 0;
    while (nowMs < 700) {
      const truth = engine.load();
      const believed = replica.loadAt(nowMs);
      // The engine computes a step's tokens at once, and whoever has begun to decode slows it a little.
      expect(Math.abs(believed.prefillTokens - truth.queuedUncachedTokens)).toBeLessThanOrEqual(
        SHAPE.batchTokensMax + 0.1 * 1000 * scene.prompts,
      );
      expect(believed.sequences).toBe(truth.queuedRequests + truth.runningRequests);
      const { uncomputed, held } = kvOf(truth);
      expect(Math.abs(believed.kvTokens - (held + uncomputed))).toBeLessThan(
        0.05 * held + SHAPE.batchTokensMax,
      );
      nowMs += runStep(engine);
      compared += 1;
    }
    expect(compared).toBeGreaterThan(20);
    expect(engine.load().queuedUncachedTokens).toBe(0);
    expect(replica.loadAt(700).prefillTokens).toBe(0);
  });

  test("prompts that wait for a sequence are not computed by waiting", () => {
    const engine = aBusyEngine(SHAPE.sequencesMax, 3);
    const replica = replicaOf(engine);
    for (let step = 0; step < 50; step++) runStep(engine);
    expect(engine.load().queuedUncachedTokens).toBe(3000);
    expect(replica.loadAt(1000).prefillTokens).toBe(3000);
  });

  test("prompts that wait for memory are not computed by waiting", () => {
    const waiting = { queuedRequests: 2, queuedUncachedTokens: 900, waitingKvTokens: 1000 };
    const full = aReplica({ report: { ...waiting, blockCount: 1000, usedBlocks: 980 } });
    const roomy = aReplica({ report: { ...waiting, blockCount: 1000, usedBlocks: 900 } });
    expect(full.loadAt(1500).prefillTokens).toBe(900);
    expect(roomy.loadAt(1500).prefillTokens).toBe(0);
  });

  test("a slow machine has more left", () => {
    const backlog = { queuedUncachedTokens: 1000, waitingKvTokens: 1000, queuedRequests: 1 };
    const fast = aReplica({ report: backlog });
    const slow = aReplica({ report: { ...backlog, speedRatio: 2 } });
    expect(fast.loadAt(505).prefillTokens).toBeCloseTo(500);
    expect(slow.loadAt(505).prefillTokens).toBeCloseTo(750);
  });

  test("an engine that keeps a tight TBT target prefills in small pieces, so more is left", () => {
    const report = {
      queuedUncachedTokens: 1000,
      waitingKvTokens: 1000,
      queuedRequests: 1,
      runningRequests: 1,
      tightestTbtMs: 50,
    };
    const heedless = aReplica({ report });
    const heedful = aReplica({ report, hello: { keepsTbt: true } });
    expect(heedful.loadAt(300).prefillTokens).toBeGreaterThan(heedless.loadAt(300).prefillTokens);
    // 35 ms of prefill a step: 29 steps of 10 ms beside the 1,000 ms of work.
    expect(heedful.loadAt(645).prefillTokens).toBeCloseTo(500);
  });

  test("a report that tells no cost is carried forward all the same", () => {
    const step = { fixedMs: 0, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };
    const replica = aReplica({
      report: { step, stepMs: 0, prefillTokensPerSecond: 0, queuedUncachedTokens: 100 },
    });
    expect(replica.loadAt(0).prefillTokens).toBe(100);
    expect(replica.loadAt(2000).prefillTokens).toBe(0);
  });
});

/** Tokens with KV that requests hold or will, and those of running prompts still to be computed. */
function kvOf(load: ReturnType<Engine["load"]>) {
  const held = load.runningKvTokens + load.waitingKvTokens;
  return { held, uncomputed: Math.max(0, load.queuedUncachedTokens - load.waitingKvTokens) };
}

const acknowledging = (number: number) => ({ lastDispatch: { epoch: EPOCH, number } });

describe("what is expected of KV", () => {
  const SENT = { promptTokens: 200, expectedOutputTokens: 300 };

  test("ours count with the output expected of them, before and after a report knows them", () => {
    const replica = aReplica();
    replica.take(aSentRequest(1, SENT), 0);
    expect(replica.loadAt(0)).toMatchObject({ kvTokens: 200, kvTokensExpected: 500 });
    const running = { runningRequests: 1, runningKvTokens: 250, usedBlocks: 16 };
    replica.report(aReport(2, { ...acknowledging(1), ...running }), { epoch: EPOCH, nowMs: 0 });
    expect(replica.loadAt(0)).toMatchObject({ kvTokens: 250, kvTokensExpected: 500 });
  });

  test("strangers count with what they hold", () => {
    const held = { runningRequests: 2, runningKvTokens: 600, usedBlocks: 40 };
    expect(aReplica({ report: held }).loadAt(0).kvTokensExpected).toBe(600);
  });

  test("whoever has more than was expected counts with what it has", () => {
    const replica = aReplica();
    replica.take(aSentRequest(1, SENT), 0);
    const running = { runningRequests: 1, runningKvTokens: 900, usedBlocks: 60 };
    replica.report(aReport(2, { ...acknowledging(1), ...running }), { epoch: EPOCH, nowMs: 0 });
    expect(replica.loadAt(0).kvTokensExpected).toBe(900);
  });

  test("a beginning that several share is there once", () => {
    const shared = { runningRequests: 4, runningKvTokens: 4000, usedBlocks: 100 };
    const load = aReplica({ report: shared }).loadAt(0);
    expect(load.kvTokens).toBe(4000);
    expect(load.kvTokensExpected).toBe(1600);
  });
});
