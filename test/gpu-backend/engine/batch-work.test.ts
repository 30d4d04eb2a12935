import { describe, expect, test } from "vitest";
import { workOf } from "../../../gpu-backend/engine/batch-work.ts";

describe("workOf", () => {
  test("sums tokens, what they attend to, sequences and the KV that is read", () => {
    const row = {
      sequenceId: "a",
      blockTable: new Int32Array(2),
      output: "last",
      outputIndex: 0,
    } as const;
    const rows = [
      { ...row, startPosition: 10, tokens: new Int32Array(1) },
      { ...row, startPosition: 2, tokens: new Int32Array(3) },
    ];
    // The second row's tokens attend to 3, 4 and 5 tokens.
    const expected = { tokens: 4, attendedPairs: 11 + 12, sequences: 2, kvTokens: 16 };
    expect(workOf({ rows, totalTokens: 4 })).toEqual(expected);
  });
});
