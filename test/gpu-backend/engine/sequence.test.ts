import { describe, expect, test } from "vitest";
import { Sequence } from "../../../gpu-backend/engine/sequence.ts";
import { aGenerateRequest, hashBlockReadably, tokenRange } from "../../support/engine-builders.ts";

const aSequence = (promptTokens: number, outputTokensMax = 9) =>
  new Sequence({
    request: aGenerateRequest({ promptTokens: tokenRange(promptTokens), stopTokenIds: [42] }),
    arrivalNumber: 1,
    outputTokensMax,
    hashing: { hashBlock: hashBlockReadably, blockTokens: 4, modelRevision: "m" },
  });

describe("Sequence", () => {
  test("computes its known tokens in order, and then the one it sampled", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    expect(sequence.nextTokens(3)).toEqual(Int32Array.of(1000, 1001, 1002));
    sequence.advance(3);
    expect(sequence.nextTokens(3)).toEqual(Int32Array.of(1003, 1004));
    sequence.advance(2);
    expect(sequence.append(7)).toBeUndefined();
    expect(sequence.nextTokens(3)).toEqual(Int32Array.of(7));
  });

  test("samples only behind its last known token", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    sequence.advance(4);
    expect(() => sequence.append(7)).toThrow("last known token");
    expect(() => sequence.advance(2)).toThrow("known tokens");
  });

  test("computes the prompt and the output again after a preemption", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    sequence.advance(5);
    sequence.append(7);
    sequence.preempt();
    expect(sequence).toMatchObject({ computedTokens: 0, outputTokens: 1, uncachedTokens: 6 });
    sequence.expectHit(4);
    expect(sequence.uncachedTokens).toBe(2);
    sequence.admit(0);
    expect(sequence.uncachedTokens).toBe(6);
    expect(sequence.nextTokens(9)).toEqual(Int32Array.of(1000, 1001, 1002, 1003, 1004, 7));
  });

  test("remembers what was cached at its first admission", () => {
    const sequence = aSequence(9);
    sequence.admit(4);
    sequence.preempt();
    sequence.admit(8);
    expect(sequence.cachedTokens).toBe(4);
  });

  test("has started only once a step has computed something for it", () => {
    const sequence = aSequence(9);
    sequence.admit(8);
    expect(sequence.hasStarted).toBe(false);
    sequence.advance(1);
    sequence.preempt();
    expect(sequence.hasStarted).toBe(true);
  });
});
