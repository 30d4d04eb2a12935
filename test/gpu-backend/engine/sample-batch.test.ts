import { describe, expect, test } from "vitest";
import type { BatchRow } from "../../../gpu-backend/engine/batch.ts";
import { logitRowCount } from "../../../gpu-backend/engine/batch.ts";
import { sampleBatch } from "../../../gpu-backend/engine/sample-batch.ts";

const aRow = (sequenceId: string, logits: BatchRow["logits"], tokens = 1): BatchRow => ({
  sequenceId,
  tokens: new Int32Array(tokens),
  startPosition: 0,
  blockTable: Int32Array.of(0),
  logits,
  sampling: { temperature: 0, topK: 0, topP: 1, seed: 0 },
  outputIndex: 0,
});

const aBatch = (...rows: BatchRow[]) => ({
  rows,
  totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0),
});

describe("sampleBatch()", () => {
  test("gives one token to each row that asks for one, and passes over the others' logits", () => {
    const batch = aBatch(
      aRow("a", "last"),
      aRow("b", "none", 3),
      aRow("c", "all", 3),
      aRow("d", "last", 4),
    );
    const values = Float32Array.of(0, 1, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 1);
    expect(values.length).toBe(logitRowCount(batch) * 3);
    expect(sampleBatch(batch, values, 3)).toEqual({ tokens: Int32Array.of(1, 2), failures: [] });
  });

  test("a row with unusable logits fails alone", () => {
    const batch = aBatch(aRow("a", "last"), aRow("b", "last"), aRow("c", "last"));
    const values = Float32Array.of(0, 1, Number.NaN, 0, 1, 0);
    const { tokens, failures } = sampleBatch(batch, values, 2);
    expect([...tokens]).toEqual([1, -1, 0]);
    expect(failures).toEqual([
      { sequenceId: "b", message: "Expected finite logits, found NaN for token 0" },
    ]);
  });
});
