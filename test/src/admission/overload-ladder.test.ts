import { describe, expect, test } from "vitest";
import type { OverloadLadder } from "../../../src/tenants/overload-step.ts";
import { DEFAULT_OVERLOAD_LADDER, nextStep } from "../../../src/admission/overload-ladder.ts";
import { ModelId } from "../../../src/protocol/ids.ts";

const LADDER: OverloadLadder = [
  { kind: "queue", ratio: 0.6 },
  { kind: "clamp", outputTokensMax: 256 },
  { kind: "queue", ratio: 0.9 },
  { kind: "fallback", modelId: ModelId.parse("tiny") },
];

/** The kinds that a request goes through whose clock stands at one share after another. */
function walk(ladder: OverloadLadder, waitedRatios: readonly number[]): string[] {
  let taken = 0;
  return waitedRatios.map((waitedRatio) => {
    const next = nextStep(ladder, { waitedRatio, taken });
    taken = next.taken;
    return next.step.kind;
  });
}

describe("nextStep", () => {
  test("a request waits for its share, then goes down its ladder step by step", () => {
    expect(walk(LADDER, [0, 0.3, 0.59, 0.6, 0.6, 0.89, 0.9, 0.9])).toEqual([
      "queue",
      "queue",
      "queue",
      "clamp",
      "queue",
      "queue",
      "fallback",
      "reject",
    ]);
  });

  test("a share that is spent before the pool was asked is not waited for", () => {
    expect(walk(LADDER, [0.95, 0.95, 0.95])).toEqual(["clamp", "fallback", "reject"]);
  });

  test("a share of nothing refuses at once", () => {
    expect(walk([{ kind: "queue", ratio: 0 }, { kind: "reject" }], [0])).toEqual(["reject"]);
  });

  test("what a ladder does not say is a refusal, however often it is asked", () => {
    expect(walk([], [0, 0])).toEqual(["reject", "reject"]);
    expect(nextStep([{ kind: "reject" }], { waitedRatio: 0, taken: 1 })).toEqual({
      step: { kind: "reject" },
      taken: 1,
    });
  });

  test("without a ladder of its own a request waits for all of its target", () => {
    expect(walk(DEFAULT_OVERLOAD_LADDER, [0, 0.999, 1])).toEqual(["queue", "queue", "reject"]);
  });
});
