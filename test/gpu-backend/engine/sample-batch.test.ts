import { describe, expect, test } from "vitest";
import type { BatchRow } from "../../../gpu-backend/engine/batch.ts";
import { logitRowCount } from "../../../gpu-backend/engine/batch.ts";
import { sampleBatch } from "../../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../../gpu-backend/engine/sampler.ts";
import { aTokenChoice } from "../../support/engine-builders.ts";

const aRow = (
  sequenceId: string,
  output: BatchRow["output"],
  changes: Partial<BatchRow> = {},
): BatchRow => ({
  sequenceId,
  tokens: new Int32Array(1),
  startPosition: 0,
  blockTable: Int32Array.of(0),
  output,
  outputIndex: 0,
  ...(output === "last" && { choice: aTokenChoice() }),
  ...changes,
});

/** Samples rows of a model with these logits, a vocabulary of `vocabularyTokens` and states of 2. */
function sample(
  rows: readonly BatchRow[],
  logits: readonly number[],
  vocabularyTokens: number,
  hidden: readonly number[] = [],
) {
  const batch = { rows, totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0) };
  const rowCount = logitRowCount(batch);
  expect(logits).toHaveLength(rowCount * vocabularyTokens);
  return sampleBatch(new Sampler(vocabularyTokens), batch, {
    rowCount,
    vocabularyTokens,
    values: Float32Array.from(logits),
    hiddenSize: 2,
    hidden: Float32Array.from(hidden),
  });
}

describe("sampleBatch()", () => {
  test("gives each row what it asks for, from its own rows of the output", () => {
    const rows = [
      aRow("a", "last"),
      aRow("b", "none", { tokens: new Int32Array(3) }),
      aRow("c", "hidden", { tokens: new Int32Array(2) }),
      aRow("d", "all", {
        tokens: Int32Array.of(0, 1),
        scoring: { top: 1, nextTokens: Int32Array.of(1) },
        choice: aTokenChoice(),
      }),
      aRow("e", "last", { tokens: new Int32Array(4) }),
    ];
    const [a, b, c, d, e] = sample(rows, [0, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 1], 3, [0.5, 1, 1.5, 2]);
    expect(a).toEqual({ kind: "computed", chosen: [{ tokenId: 1 }] });
    expect(b).toEqual({ kind: "computed" });
    expect(c).toEqual({ kind: "computed", hidden: Float32Array.of(0.5, 1, 1.5, 2) });
    const third = -Math.log(3);
    expect(d).toMatchObject({
      chosen: [{ tokenId: 0 }],
      promptLogprobs: [{ tokenId: 1, logprob: third, top: [{ tokenId: 0, logprob: third }] }],
    });
    expect(e).toEqual({ kind: "computed", chosen: [{ tokenId: 2 }] });
  });

  test("hidden states are copied out of the executor's memory", () => {
    const hidden = Float32Array.of(1, 2);
    const batch = { rows: [aRow("a", "hidden")], totalTokens: 1 };
    const output = { rowCount: 0, vocabularyTokens: 3, values: new Float32Array(0), hiddenSize: 2 };
    const [result] = sampleBatch(new Sampler(3), batch, { ...output, hidden });
    hidden.fill(9);
    expect(result).toMatchObject({ hidden: Float32Array.of(1, 2) });
  });

  test("a row with unusable logits fails alone", () => {
    const rows = [aRow("a", "last"), aRow("b", "last"), aRow("c", "last")];
    expect(sample(rows, [0, 1, Number.NaN, 0, 1, 0], 2)).toEqual([
      { kind: "computed", chosen: [{ tokenId: 1 }] },
      { kind: "failed", message: "Expected finite logits, found NaN for token 0" },
      { kind: "computed", chosen: [{ tokenId: 0 }] },
    ]);
  });

  test("so does one whose prompt or states are", () => {
    const scoring = { top: 0, nextTokens: Int32Array.of(0) };
    const rows = [
      aRow("a", "all", { scoring }),
      aRow("b", "all", { scoring }),
      aRow("c", "hidden"),
      aRow("d", "hidden"),
    ];
    const results = sample(rows, [0, 1, Infinity, 0], 2, [1, 2, 3, Number.NaN]);
    expect(results.map(({ kind }) => kind)).toEqual(["computed", "failed", "computed", "failed"]);
    expect(results[3]).toEqual({
      kind: "failed",
      message: "Expected finite hidden states, found NaN",
    });
  });

  test("so does one whose constraint breaks", () => {
    const broken = {
      allowedTokens: () => {
        throw new Error("the matcher is gone");
      },
      accept: () => {},
      acceptOnTrial: () => {},
      takeBack: () => {},
      dispose: () => {},
    };
    const rows = [
      aRow("a", "last", { choice: aTokenChoice({ constraint: broken }) }),
      aRow("b", "last"),
    ];
    expect(sample(rows, [0, 1, 0, 1], 2)).toEqual([
      { kind: "failed", message: "the matcher is gone" },
      { kind: "computed", chosen: [{ tokenId: 1 }] },
    ]);
  });
});
