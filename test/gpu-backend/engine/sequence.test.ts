import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import type { ComputedRow } from "../../../gpu-backend/engine/row-result.ts";
import { Sequence } from "../../../gpu-backend/engine/sequence.ts";
import { aGenerateRequest, hashBlockReadably, tokenRange } from "../../support/engine-builders.ts";

const aSequence = (promptTokens: number, overrides: Partial<GenerateRequest> = {}) => {
  const request = aGenerateRequest({
    promptTokens: tokenRange(promptTokens),
    outputTokensMax: 9,
    stopTokenIds: [42],
    ...overrides,
  });
  return new Sequence({
    request,
    arrivalNumber: 1,
    arrivedAtMs: 0,
    outputTokensMax: request.outputTokensMax,
    hashing: { hashBlock: hashBlockReadably, blockTokens: 4, modelRevision: "m" },
  });
};

const nextRow = (sequence: Sequence, tokensMax: number) =>
  sequence.toRow(sequence.nextTokens(tokensMax), Int32Array.of(0));

/** Computes at most so many tokens; `result` says what else that brought. */
function compute(sequence: Sequence, tokensMax: number, result: Partial<ComputedRow> = {}) {
  const row = nextRow(sequence, tokensMax);
  const chosen = row.choice === undefined ? {} : { chosen: [{ tokenId: 7 }] };
  return { row, ...sequence.commit(row, { kind: "computed", ...chosen, ...result }) };
}

const scoresOf = (tokens: Int32Array) =>
  Array.from(tokens, (tokenId) => ({ tokenId, logprob: -1, top: [] }));

const states = (tokens: number) => ({ hidden: new Float32Array(tokens * 2).fill(1) });

describe("Sequence", () => {
  test("computes its known tokens in order, and then the one it sampled", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    const first = compute(sequence, 3);
    expect(first.row).toMatchObject({ tokens: Int32Array.of(1000, 1001, 1002), output: "none" });
    expect(first.events).toEqual([]);
    const second = compute(sequence, 3);
    expect(second.row).toMatchObject({ tokens: Int32Array.of(1003, 1004), output: "last" });
    expect(second.events).toEqual([{ kind: "token", id: "a", tokenId: 7 }]);
    expect(nextRow(sequence, 3)).toMatchObject({ tokens: Int32Array.of(7), startPosition: 5 });
  });

  test("chooses a token only behind its last known one", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    const row = nextRow(sequence, 4);
    expect(row.choice).toBeUndefined();
    expect(() => sequence.commit(row, { kind: "computed", chosen: [{ tokenId: 7 }] })).toThrow(
      "last known token",
    );
  });

  test("knows since when it waits again, until it runs", () => {
    const sequence = aSequence(5);
    expect(sequence.preemptedAtMs).toBeUndefined();
    sequence.admit(0);
    sequence.preempt(30);
    expect(sequence.preemptedAtMs).toBe(30);
    sequence.admit(0);
    expect(sequence.preemptedAtMs).toBeUndefined();
  });

  test("computes the prompt and the output again after a preemption", () => {
    const sequence = aSequence(5);
    sequence.admit(0);
    compute(sequence, 5);
    sequence.preempt(0);
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
    sequence.preempt(0);
    sequence.admit(8);
    expect(sequence.cachedTokens).toBe(4);
  });

  test("has started only once a step has computed something for it", () => {
    const sequence = aSequence(9);
    sequence.admit(8);
    expect(sequence.hasStarted).toBe(false);
    compute(sequence, 1);
    sequence.preempt(0);
    expect(sequence.hasStarted).toBe(true);
  });

  test("forbids stop tokens until the output has its minimum, and takes none of them for the end", () => {
    const sequence = aSequence(1, { outputTokensMin: 2 });
    sequence.admit(0);
    expect(nextRow(sequence, 1).choice?.forbiddenTokenIds).toEqual([42]);
    const stop = { chosen: [{ tokenId: 42 }] };
    expect(compute(sequence, 1, stop).ending).toBeUndefined();
    expect(compute(sequence, 1, stop).ending).toBeUndefined();
    expect(nextRow(sequence, 1).choice?.forbiddenTokenIds).toEqual([]);
    expect(compute(sequence, 1, stop).ending).toEqual({ kind: "finished", reason: "stop" });
  });

  test("asks for the hidden state of each token of a pooled prompt once", () => {
    const sequence = aSequence(6, { outputTokensMax: 0, pooling: "mean" });
    sequence.admit(0);
    expect(compute(sequence, 4, states(4)).row.output).toBe("hidden");
    sequence.preempt(0);
    sequence.admit(0);
    expect(compute(sequence, 4).row.output).toBe("none");
    const { row, events } = compute(sequence, 4, states(2));
    expect(row).toMatchObject({ output: "hidden", startPosition: 4 });
    const half = Math.SQRT1_2;
    expect(events).toEqual([{ kind: "embedded", id: "a", vector: Float32Array.of(half, half) }]);
  });

  test("scores its prompt in pieces of bounded size, each once however often it is preempted", () => {
    const sequence = aSequence(100, { promptLogprobsTop: 0, outputTokensMax: 0 });
    sequence.admit(0);
    const first = nextRow(sequence, 1000);
    expect(first).toMatchObject({ output: "all", scoring: { top: 0 } });
    expect(first.tokens).toHaveLength(64);
    const nextTokens = first.scoring?.nextTokens ?? new Int32Array(0);
    expect(nextTokens).toEqual(Int32Array.from(tokenRange(64, 1001)));
    sequence.commit(first, { kind: "computed", promptLogprobs: scoresOf(nextTokens) });
    sequence.preempt(0);
    sequence.admit(0);
    // What is scored already is only computed: its KV was lost, its logits are known.
    expect(compute(sequence, 50).row.output).toBe("none");
    const last = nextRow(sequence, 50);
    expect(last).toMatchObject({ output: "all", startPosition: 50 });
    const rest = scoresOf(last.scoring?.nextTokens ?? new Int32Array(0));
    const { events, ending } = sequence.commit(last, { kind: "computed", promptLogprobs: rest });
    expect(ending).toEqual({ kind: "finished", reason: "length" });
    expect(events).toMatchObject([{ kind: "prompt-logprobs", id: "a" }]);
    const [told] = events;
    const logprobs = told?.kind === "prompt-logprobs" ? told.logprobs : [];
    expect(logprobs.map((logprob) => logprob?.tokenId)).toEqual([
      undefined,
      ...tokenRange(99, 1001),
    ]);
  });
});
