import { describe, expect, test } from "vitest";
import { transposeMatrix } from "../../../../gpu-backend/engine/executor/matrices.ts";
import { readWhole, stackMatrices } from "../../../../gpu-backend/engine/model/matrix.ts";
import { matrixOf } from "./random-model.ts";

describe("transposeMatrix", () => {
  test("inputs become rows", () => {
    const transposed = transposeMatrix(
      matrixOf([
        [1, 2, 3],
        [4, 5, 6],
      ]),
    );
    expect([...transposed]).toEqual([1, 4, 2, 5, 3, 6]);
  });
});

describe("stackMatrices", () => {
  test("outputs follow one another in order", () => {
    const stacked = stackMatrices([
      matrixOf([[1, 2]]),
      matrixOf([
        [3, 4],
        [5, 6],
      ]),
    ]);
    expect(stacked).toMatchObject({ outputs: 3, inputs: 2 });
    expect([...readWhole(stacked)]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...stacked.rows(1, 1)]).toEqual([3, 4]);
  });

  test("matrices with other inputs cannot be stacked", () => {
    expect(() => stackMatrices([matrixOf([[1, 2]]), matrixOf([[3]])])).toThrow("same inputs");
  });
});
