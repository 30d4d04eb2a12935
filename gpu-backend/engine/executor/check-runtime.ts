import { assert } from "../../../src/base/assert.ts";
import { integerProductGraph } from "./integer-product-graph.ts";
import { OnnxGraph } from "./onnx-writer.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

const FLOAT_BYTES = 4;

/**
 * Multiplies small matrices, in several shapes and with an error between, and compares every number.
 * Throws unless the runtime reads, writes and reports as we expect: it is how a change in ONNX
 * Runtime's undocumented exports would show before a model runs on them.
 */
export async function checkRuntime(runtime: SegmentRuntime): Promise<void> {
  const graph = new OnnxGraph();
  graph.input("x", "float32", ["N", 2]);
  const weights = graph.constant("float32", [2, 3], Float32Array.of(1, 2, 3, 10, 20, 30));
  graph.apply("MatMul", ["x", weights], { outputs: ["y"] });
  graph.output("y", "float32", ["N", 3]);
  const segment = await runtime.load({ model: graph.toModel(), inputs: ["x"], outputs: ["y"] });
  const x = runtime.allocate(4 * 2 * FLOAT_BYTES);
  const y = runtime.allocate(4 * 3 * FLOAT_BYTES);
  const multiply = async (rows: number, columns = 2) => {
    await segment.run(
      [{ type: "float32", address: x, shape: [rows, columns] }],
      [{ type: "float32", address: y, shape: [rows, 3] }],
    );
  };
  for (const rows of [1, 4, 1, 3]) {
    const input = Float32Array.from({ length: rows * 2 }, (_, index) => index + rows);
    new Float32Array(runtime.memory.buffer, x, input.length).set(input);
    const results = new Float32Array(runtime.memory.buffer, y, 4 * 3).fill(0);
    await multiply(rows);
    results.forEach((result, index) => {
      const row = Math.floor(index / 3);
      const sum = (input[row * 2] ?? 0) + 10 * (input[row * 2 + 1] ?? 0);
      const expected = row < rows ? sum * ((index % 3) + 1) : 0;
      assert(result === expected, `row ${row} of ${rows} is ${expected}, not ${result}`);
    });
    const wrongShape = await multiply(rows, 1).then(
      () => undefined,
      (error: unknown) => error,
    );
    assert(wrongShape instanceof Error, "a wrong shape is reported");
  }
}

const numbers = (count: number) =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(index * index));

/**
 * Multiplies rows alone and among others, and throws unless their bits are the same: a tenant's text
 * must not depend on who else is served. A GPU's shaders may be others for other shapes.
 */
export async function checkRowsAlone(runtime: SegmentRuntime): Promise<void> {
  const [inputs, outputs, rowsMax] = [257, 96, 64];
  const graph = new OnnxGraph();
  graph.input("x", "float32", ["N", inputs]);
  const weights = graph.constant("float32", [inputs, outputs], numbers(inputs * outputs));
  graph.apply("MatMul", ["x", weights], { outputs: ["y"] });
  graph.output("y", "float32", ["N", outputs]);
  const segment = await runtime.load({ model: graph.toModel(), inputs: ["x"], outputs: ["y"] });
  const x = runtime.allocate(rowsMax * inputs * FLOAT_BYTES);
  const y = runtime.allocate(rowsMax * outputs * FLOAT_BYTES);
  const { buffer } = runtime.memory;
  new Float32Array(buffer, x, rowsMax * inputs).set(numbers(rowsMax * inputs));
  let alone: Float32Array | undefined;
  for (const rows of [1, 2, 5, 16, rowsMax]) {
    await segment.run(
      [{ type: "float32", address: x, shape: [rows, inputs] }],
      [{ type: "float32", address: y, shape: [rows, outputs] }],
    );
    const first = new Float32Array(buffer, y, outputs);
    alone ??= first.slice();
    assert(
      alone.every((value, output) => value === first[output]),
      `a row is the same alone and among ${rows}`,
    );
  }
}

const EXTREMES = [-127, 127, 126, -1, 0, 1];

const extremeAt = (index: number) => EXTREMES[index % EXTREMES.length] ?? 0;
// Half of the outputs and of the rows are all of one sign, where sums are largest.
const weightOf = (output: number, input: number) =>
  output % 2 === 0 ? 127 : extremeAt(output * 5 + input * 7);
const valueOf = (row: number, input: number) =>
  row % 2 === 0 ? (row % 4 === 0 ? 127 : -127) : extremeAt(row * 11 + input);

/**
 * Whether the runtime's products of bytes are exact where they are largest. ONNX Runtime's kernels add
 * two products in 16 bits on processors without VNNI, and saturate (onnxruntime #12088).
 */
export async function multipliesExactly(runtime: SegmentRuntime): Promise<boolean> {
  const [inputs, outputs, rows] = [96, 48, 7];
  const values = Int8Array.from({ length: inputs * outputs }, (_, index) =>
    weightOf(Math.floor(index / inputs), index % inputs),
  );
  const segment = await runtime.load(integerProductGraph({ inputs, outputs, values }));
  const x = runtime.allocate(rows * inputs);
  const y = runtime.allocate(rows * outputs * FLOAT_BYTES);
  new Uint8Array(runtime.memory.buffer, x, rows * inputs).set(
    Uint8Array.from(
      { length: rows * inputs },
      (_, index) => valueOf(Math.floor(index / inputs), index % inputs) + 128,
    ),
  );
  await segment.run(
    [{ type: "uint8", address: x, shape: [rows, inputs] }],
    [{ type: "int32", address: y, shape: [rows, outputs] }],
  );
  return new Int32Array(runtime.memory.buffer, y, rows * outputs).every((found, index) => {
    const row = Math.floor(index / outputs);
    let sum = 0;
    for (let input = 0; input < inputs; input++) {
      sum += valueOf(row, input) * weightOf(index % outputs, input);
    }
    return found === sum;
  });
}
