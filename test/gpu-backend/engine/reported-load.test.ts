import { describe, expect, test } from "vitest";
import { toReportedState } from "../../../gpu-backend/engine/reported-load.ts";
import { StepMeter } from "../../../gpu-backend/engine/step-meter.ts";
import { ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { aGenerateRequest, anEngine, runStep, tokenRange } from "../../support/engine-builders.ts";

const LINK = { lastDispatch: { epoch: "life", number: 7 }, draining: false };

/** A meter whose last step, a prefill of a hundred tokens, ended at `nowMs`. */
function aMeter(nowMs: number): StepMeter {
  const meter = new StepMeter({ stepMs: 10, prefillTokensPerSecond: 1000 });
  const row = {
    sequenceId: "a",
    tokens: new Int32Array(100),
    startPosition: 0,
    blockTable: new Int32Array(7),
    output: "last",
    outputIndex: 0,
  } as const;
  meter.record({ rows: [row], totalTokens: 100 }, 110, nowMs);
  return meter;
}

describe("toReportedState()", () => {
  test("makes a report that its protocol accepts, of an idle engine and of a busy one", () => {
    const engine = anEngine({ batchTokensMax: 32 });
    const { measurements } = aMeter(0);
    const reportOf = (sequence: number) => {
      const state = toReportedState(engine.load(), measurements, 0, LINK);
      return ReplicaReport.parse({ kind: "report", sequence, ...state });
    };
    expect(reportOf(1)).toMatchObject({
      queuedAttendedPairs: 0,
      tightestTbtMs: null,
      lastDispatch: { epoch: "life", number: 7 },
    });
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(50), tbtTargetMs: 60 }), 0);
    runStep(engine);
    expect(reportOf(2)).toMatchObject({
      runningRequests: 1,
      queuedUncachedTokens: 18,
      runningKvTokens: 32,
      waitingKvTokens: 0,
      tightestTbtMs: 60,
      step: measurements.step,
      speedRatio: measurements.speedRatio,
    });
  });

  test("an engine that never computed anything has no prefill to report", () => {
    const { measurements } = new StepMeter({ stepMs: 10, prefillTokensPerSecond: 1000 });
    const state = toReportedState(anEngine().load(), measurements, 5, LINK);
    expect(state).toMatchObject({ prefillTimeRatio: 0, speedRatio: 1 });
  });

  test("the share of prefill fades while nothing is there, and not during a long step", () => {
    const { measurements } = aMeter(0);
    const idle = anEngine();
    const busy = anEngine();
    busy.submit(aGenerateRequest(), 0);
    const ratioOf = (engine: typeof idle, nowMs: number) =>
      toReportedState(engine.load(), measurements, nowMs, LINK).prefillTimeRatio;
    expect(ratioOf(idle, 0)).toBe(measurements.prefillTimeRatio);
    expect(ratioOf(idle, 2000)).toBeCloseTo(measurements.prefillTimeRatio / Math.E);
    expect(ratioOf(busy, 2000)).toBe(measurements.prefillTimeRatio);
  });
});
