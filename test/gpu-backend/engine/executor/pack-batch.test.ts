import { describe, expect, test } from "vitest";
import type { BatchRow } from "../../../../gpu-backend/engine/batch.ts";
import { type BatchLimits, packBatch } from "../../../../gpu-backend/engine/executor/pack-batch.ts";

const LIMITS: BatchLimits = {
  vocabularyTokens: 100,
  contextTokens: 64,
  blockTokens: 16,
  blockCount: 8,
  batchTokensMax: 32,
};

const aRow = (changes: Partial<BatchRow>): BatchRow => ({
  sequenceId: "a",
  tokens: Int32Array.of(1),
  startPosition: 0,
  blockTable: Int32Array.of(0),
  output: "last",
  outputIndex: 0,
  ...changes,
});

const pack = (...rows: readonly BatchRow[]) =>
  packBatch({ rows, totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0) }, LIMITS);

describe("packBatch", () => {
  test("a prefill chunk and a decode token lie one behind the other", () => {
    const packed = pack(
      aRow({
        sequenceId: "chunk",
        tokens: Int32Array.of(7, 8, 9),
        startPosition: 15,
        blockTable: Int32Array.of(5, 2, 0),
        output: "none",
      }),
      aRow({
        sequenceId: "decode",
        tokens: Int32Array.of(4),
        startPosition: 33,
        blockTable: Int32Array.of(1, 7, 3, 6),
      }),
    );
    expect(packed).toEqual({
      tokens: Int32Array.of(7, 8, 9, 4),
      positions: Int32Array.of(15, 16, 17, 33),
      slots: Int32Array.of(5 * 16 + 15, 2 * 16, 2 * 16 + 1, 3 * 16 + 1),
      // Only the blocks up to the last token: the fourth of "decode" is reserved, not yet in use.
      blockIds: Int32Array.of(5, 2, 1, 7, 3),
      spans: [
        {
          firstRow: 0,
          tokenCount: 3,
          startPosition: 15,
          firstBlock: 0,
          logitRows: 0,
          hiddenRows: 0,
        },
        {
          firstRow: 3,
          tokenCount: 1,
          startPosition: 33,
          firstBlock: 2,
          logitRows: 1,
          hiddenRows: 0,
        },
      ],
      logitRowCount: 1,
    });
  });

  test("a row asks for logits of none, its last or all tokens, or for all hidden states", () => {
    const tokens = Int32Array.of(1, 2, 3);
    const packed = pack(
      ...(["none", "hidden", "last", "all"] as const).map((output, block) =>
        aRow({ sequenceId: output, tokens, output, blockTable: Int32Array.of(block) }),
      ),
    );
    expect(packed.spans.map((span) => span.logitRows)).toEqual([0, 0, 1, 3]);
    expect(packed.spans.map((span) => span.hiddenRows)).toEqual([0, 3, 0, 0]);
    expect(packed.logitRowCount).toBe(4);
  });

  test("sequences may share blocks that neither writes", () => {
    const shared = { startPosition: 16, tokens: Int32Array.of(1) };
    const packed = pack(
      aRow({ ...shared, sequenceId: "a", blockTable: Int32Array.of(3, 1) }),
      aRow({ ...shared, sequenceId: "b", blockTable: Int32Array.of(3, 2) }),
    );
    expect(packed.blockIds).toEqual(Int32Array.of(3, 1, 3, 2));
  });

  test("a batch of exactly the limits is taken", () => {
    const packed = pack(
      aRow({
        tokens: new Int32Array(32).fill(99),
        startPosition: 32,
        blockTable: Int32Array.of(7, 0, 1, 2),
      }),
    );
    expect(packed.tokens).toHaveLength(32);
  });

  test.each<[string, BatchRow[], string]>([
    ["no token", [], "a batch has at least one token"],
    [
      "more tokens than a step holds",
      [aRow({ tokens: new Int32Array(33), blockTable: Int32Array.of(0, 1, 2) })],
      "a batch has at most 32 tokens, not 33",
    ],
    ["one sequence twice", [aRow({}), aRow({})], "a has one row in a batch"],
    [
      "a row without tokens",
      [aRow({}), aRow({ sequenceId: "b", tokens: new Int32Array(0) })],
      "b has a token to compute",
    ],
    ["a negative position", [aRow({ startPosition: -1 })], "a lies within 64 positions"],
    [
      "a position behind the context",
      [aRow({ startPosition: 64, blockTable: new Int32Array(5) })],
      "a lies within 64 positions, not 64 to 65",
    ],
    ["a missing block", [aRow({ startPosition: 16 })], "a has blocks for 17 tokens, not 1"],
    [
      "a block outside the pool",
      [aRow({ blockTable: Int32Array.of(8) })],
      "a has blocks of the pool only",
    ],
    [
      "a negative block",
      [aRow({ startPosition: 16, blockTable: Int32Array.of(-1, 0) })],
      "a has blocks of the pool only",
    ],
    [
      "a token outside the vocabulary",
      [aRow({ tokens: Int32Array.of(100) })],
      "a has tokens of the vocabulary only",
    ],
    [
      "one block written for two sequences",
      [aRow({}), aRow({ sequenceId: "b", blockTable: Int32Array.of(0) })],
      "block 0 is written for one sequence only",
    ],
  ])("%s is a bug of the scheduler", (_what, rows, message) => {
    expect(() => pack(...rows)).toThrow(message);
  });

  test("a sequence longer than the pool is a bug, however long the context", () => {
    const limits = { ...LIMITS, blockCount: 2 };
    const row = aRow({ startPosition: 32, blockTable: Int32Array.of(0, 1, 0) });
    expect(() => packBatch({ rows: [row], totalTokens: 1 }, limits)).toThrow(
      "a lies within 32 positions, not 32 to 33",
    );
  });

  test("a wrong total is a bug of the scheduler", () => {
    expect(() => packBatch({ rows: [aRow({})], totalTokens: 2 }, LIMITS)).toThrow(
      "rows have 1 tokens, not 2",
    );
  });
});
