import { describe, expect, test } from "vitest";
import { REPLICA_FRAME_BYTES_MAX, ReplicaFrame } from "../../../src/protocol/engine-api.ts";
import { aHello, aReport } from "../../support/replica-builders.ts";

const isFrame = (frame: unknown) => ReplicaFrame.safeParse(frame).success;

describe("a hello", () => {
  test("says what a step holds and whether TBT targets bound its prefill", () => {
    const hello = aHello(0, { batchTokensMax: 8192, keepsTbt: true });
    expect(ReplicaFrame.parse(hello)).toEqual(hello);
    const { batchTokensMax: _, ...without } = hello;
    expect(isFrame(without)).toBe(false);
    expect(isFrame({ ...hello, batchTokensMax: 0 })).toBe(false);
  });

  test("may say what the replica was started for, in words that are known", () => {
    const hello = aHello(0, { role: "prefill" });
    expect(ReplicaFrame.parse(hello)).toEqual(hello);
    expect(isFrame({ ...hello, role: "judge" })).toBe(false);
  });

  test("of another version of the protocol is none", () => {
    expect(isFrame({ ...aHello(0), protocolVersion: 1 })).toBe(false);
  });
});

describe("a report", () => {
  test("carries what a step costs, and survives JSON", () => {
    const report = aReport(1, { speedRatio: 1.25, prefillTimeRatio: 0.5, tightestTbtMs: 30 });
    const text = JSON.stringify(report);
    expect(ReplicaFrame.parse(JSON.parse(text))).toEqual(report);
    expect(text.length).toBeLessThan(REPLICA_FRAME_BYTES_MAX / 10);
  });

  test.each([
    { queuedAttendedPairs: -1 },
    { runningKvTokens: 0.5 },
    { waitingKvTokens: Number.NaN },
    { speedRatio: 0 },
    { speedRatio: Infinity },
    { prefillTimeRatio: 1.01 },
    { step: { ...aReport(1).step, tokenMs: -1 } },
    { step: { ...aReport(1).step, fixedMs: Infinity } },
    { sequence: 0 },
  ])("that no engine can mean is refused: %j", (change) => {
    expect(isFrame({ ...aReport(1), ...change })).toBe(false);
  });
});
