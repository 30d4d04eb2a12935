import { describe, expect, test } from "vitest";
import { EmbeddingTable } from "../../../../gpu-backend/engine/executor/embedding-table.ts";
import { holdMatrix, type Matrix } from "../../../../gpu-backend/engine/model/matrix.ts";
import { seededRandom } from "../../../../src/base/random.ts";

const ROWS = 300;
/** More than one stretch of 4 MiB. */
const COLUMNS = 5001;

const random = seededRandom(1);
/** Whole bfloat16 numbers. */
const VALUES = Float32Array.from({ length: ROWS * COLUMNS }, () => {
  return (Math.floor(random() * 255) - 127) * 2 ** Math.floor(random() * 20 - 10);
});
const FLOATS: Matrix = holdMatrix(ROWS, COLUMNS, VALUES);
const HALVES: Matrix = { ...FLOATS, isBfloat16: true };
const TOKENS = Int32Array.of(7, 0, ROWS - 1, 7);

/** In a shared memory and not at its start, as a runtime's is. */
function rowsOf(table: EmbeddingTable): Float32Array {
  const memory = new SharedArrayBuffer(4 * (TOKENS.length * COLUMNS + 2));
  const rows = new Float32Array(memory, 4, TOKENS.length * COLUMNS);
  table.lookUp(TOKENS, rows);
  expect(new Float32Array(memory).at(0)).toBe(0);
  expect(new Float32Array(memory).at(-1)).toBe(0);
  return rows.slice();
}

const expected = (scale: number) =>
  Float32Array.from(
    [...TOKENS].flatMap((token) => [...VALUES.subarray(token * COLUMNS, (token + 1) * COLUMNS)]),
    (value) => value * scale,
  );

describe.each([
  { kind: "f32", matrix: FLOATS, bytes: 4 },
  { kind: "bfloat16", matrix: HALVES, bytes: 2 },
])("an EmbeddingTable of $kind", ({ matrix, bytes }) => {
  test.each([1, Math.fround(Math.sqrt(2048))])("has each token's row, times %d", (scale) => {
    expect(rowsOf(new EmbeddingTable(matrix, scale))).toEqual(expected(scale));
  });

  test("takes what its values take", () => {
    expect(new EmbeddingTable(matrix, 1).byteLength).toBe(ROWS * COLUMNS * bytes);
  });
});
