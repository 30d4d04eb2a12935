import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Int8Product } from "../../../../gpu-backend/engine/executor/int8-product.ts";
import { PublicRuntime } from "../../../../gpu-backend/engine/executor/public-runtime.ts";
import { quantizeMatrix } from "../../../../gpu-backend/engine/executor/quantize.ts";
import type { Matrix } from "../../../../gpu-backend/engine/model/matrix.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { matrixOf } from "./random-model.ts";

const GUARD = 12_345;

/** Our own kernel alone, or ONNX Runtime wherever it can: the bits must be the same. */
type Way = "kernel" | "runtime";
const WAYS: readonly Way[] = ["kernel", "runtime"];

/** Multiplies; what lies behind the result must stay as it was. */
async function multiply(
  way: Way,
  matrix: Matrix,
  rows: readonly (readonly number[])[],
): Promise<Float32Array> {
  const runtime = PublicRuntime.create();
  const product = new Int8Product(
    {
      memory: runtime.memory,
      multipliesIntegers: way === "runtime",
      allocate: (byteLength) => runtime.allocate(byteLength),
      load: (graph) => runtime.load(graph),
      close: () => runtime.close(),
    },
    { segmentWorkMin: 0 },
  );
  const loaded = await product.load(matrix);
  const floats = (count: number) => {
    const address = runtime.allocate(count * 4);
    return new Float32Array(runtime.memory.buffer, address, count);
  };
  const input = floats(rows.length * matrix.inputs);
  input.set(rows.flat());
  const results = floats(rows.length * matrix.outputs + 1).fill(GUARD);
  await product.multiply(loaded, rows.length, input.byteOffset, results.byteOffset);
  await runtime.close();
  expect(results.at(-1)).toBe(GUARD);
  return results.slice(0, -1);
}

/** What the kernel must yield, to the bit: exact sums, and then one rounding after the other. */
function expectedProducts(matrix: Matrix, rows: readonly (readonly number[])[]): number[] {
  const { values, scales } = quantizeMatrix(matrix);
  return rows.flatMap((row) => {
    const largest = Math.max(
      Math.fround(1e-8),
      ...row.map((value) => Math.abs(Math.fround(value))),
    );
    const factor = Math.fround(127 / largest);
    const quantized = row.map((value) => roundToEven(Math.fround(Math.fround(value) * factor)));
    const rowScale = Math.fround(largest / 127);
    return Array.from({ length: matrix.outputs }, (_, output) => {
      const sum = quantized.reduce(
        (total, value, input) => total + value * (values[output * matrix.inputs + input] ?? 0),
        0,
      );
      return Math.fround(Math.fround(Math.fround(sum) * rowScale) * (scales[output] ?? 0));
    });
  });
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

describe.each(WAYS)("Int8Product by the %s", (way) => {
  test("products are exact sums of whole numbers, scaled, for any shape", async () => {
    const shapes = fc.record({
      inputs: fc.integer({ min: 1, max: 70 }),
      outputs: fc.integer({ min: 1, max: 40 }),
      rowCount: fc.integer({ min: 1, max: 11 }),
      seed: fc.integer(),
    });
    await fc.assert(
      fc.asyncProperty(shapes, async ({ inputs, outputs, rowCount, seed }) => {
        const random = seededRandom(seed);
        const row = () => Array.from({ length: inputs }, () => 8 * random() - 4);
        const matrix = matrixOf(Array.from({ length: outputs }, row));
        const rows = Array.from({ length: rowCount }, row);
        const products = await multiply(way, matrix, rows);
        // -0 and 0 are one number to everything that follows.
        expect([...products].map((value) => value + 0)).toEqual(
          expectedProducts(matrix, rows).map((value) => value + 0),
        );
      }),
      { numRuns: 150 },
    );
  });

  test.each([1, 4])("the extremes of both ranges are exact in %d rows", async (rowCount) => {
    const inputs = 1000;
    const signs = (pattern: number) =>
      Array.from({ length: inputs }, (_, input) =>
        Math.floor(input / pattern) % 2 === 0 ? 1 : -1,
      );
    const matrix = matrixOf([1, 2, 3, inputs].map(signs));
    const rows = Array.from({ length: rowCount }, (_, row) => signs([inputs, 1, 2, 5][row] ?? 1));
    const products = await multiply(way, matrix, rows);
    expect([...products]).toEqual(expectedProducts(matrix, rows));
    // The first row and the last output are all ones: 127 × 127 a thousand times.
    expect(products[3]).toBeCloseTo(inputs, 3);
  });

  test("a row's result does not depend on the rows beside it", async () => {
    const random = seededRandom(5);
    const row = (size: number) => Array.from({ length: 33 }, () => size * (random() - 0.5));
    const matrix = matrixOf(Array.from({ length: 21 }, () => row(1)));
    const rows = Array.from({ length: 7 }, (_, index) => row(10 ** (index - 3)));
    const together = await multiply(way, matrix, rows);
    for (const [index, alone] of rows.entries()) {
      const own = together.slice(index * 21, (index + 1) * 21);
      expect([...own]).toEqual([...(await multiply(way, matrix, [alone]))]);
    }
  });

  test("a row of zeros yields zeros", async () => {
    expect([...(await multiply(way, matrixOf([[1, 2, 3]]), [[0, 0, 0]]))]).toEqual([0]);
  });

  test("a row with a NaN yields only NaN, and the row beside it is not touched", async () => {
    const matrix = matrixOf([
      [1, 2],
      [3, 4],
    ]);
    const products = await multiply(way, matrix, [
      [Number.NaN, 1],
      [1, 1],
    ]);
    const [first, second, ...untouched] = products;
    expect([first, second]).toEqual([Number.NaN, Number.NaN]);
    expect(untouched).toEqual(expectedProducts(matrix, [[1, 1]]));
  });
});
