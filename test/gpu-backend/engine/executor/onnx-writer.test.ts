import * as ort from "onnxruntime-web";
import { describe, expect, test } from "vitest";
import { OnnxGraph } from "../../../../gpu-backend/engine/executor/onnx-writer.ts";

async function run(graph: OnnxGraph, feeds: Record<string, ort.Tensor>) {
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(graph.toModel(), { logSeverityLevel: 3 });
  try {
    return await session.run(feeds);
  } finally {
    await session.release();
  }
}

describe("OnnxGraph", () => {
  test("ONNX Runtime computes what the graph says", async () => {
    const graph = new OnnxGraph();
    graph.input("rows", "int32", ["N"]);
    const table = graph.constant("float32", [3, 2], Float32Array.of(1, 2, 30, 40, 500, 600));
    const picked = graph.apply("Gather", [table, "rows"]);
    const ones = graph.constant("float32", [], Float32Array.of(1));
    graph.apply("Add", [picked, ones], { outputs: ["sums"] });
    graph.output("sums", "float32", ["N", 2]);
    const { sums } = await run(graph, { rows: new ort.Tensor("int32", [2, 0, 2], [3]) });
    expect(sums?.dims).toEqual([3, 2]);
    expect(sums?.data).toEqual(Float32Array.of(501, 601, 2, 3, 501, 601));
  });

  test("attributes and 64-bit constants arrive", async () => {
    const graph = new OnnxGraph();
    graph.input("x", "float32", [2, 3]);
    const axes = graph.constant("int64", [1], BigInt64Array.of(-1n));
    graph.apply("ReduceMax", ["x", axes], {
      attributes: { keepdims: { kind: "integer", value: 0 } },
      outputs: ["largest"],
    });
    graph.apply("LeakyRelu", ["x"], {
      attributes: { alpha: { kind: "float", value: 0.5 } },
      outputs: ["leaky"],
    });
    graph.output("largest", "float32", [2]);
    graph.output("leaky", "float32", [2, 3]);
    const x = new ort.Tensor("float32", [1, 5, 3, -4, -6, -5], [2, 3]);
    const { largest, leaky } = await run(graph, { x });
    expect(largest?.data).toEqual(Float32Array.of(5, -4));
    expect(leaky?.data).toEqual(Float32Array.of(1, 5, 3, -2, -3, -2.5));
  });

  test("operators of ONNX Runtime's own domain are found", async () => {
    const graph = new OnnxGraph();
    graph.input("x", "float32", ["N", 2]);
    const weights = graph.constant("float32", [2], Float32Array.of(1, 1));
    graph.apply("SkipSimplifiedLayerNormalization", ["x", "x", weights], {
      domain: "com.microsoft",
      attributes: { epsilon: { kind: "float", value: 0 } },
      outputs: ["normalized", "", "", "sum"],
    });
    graph.output("normalized", "float32", ["N", 2]);
    graph.output("sum", "float32", ["N", 2]);
    const { normalized, sum } = await run(graph, {
      x: new ort.Tensor("float32", [1, -7], [1, 2]),
    });
    expect(sum?.data).toEqual(Float32Array.of(2, -14));
    expect(normalized?.data[0]).toBeCloseTo(0.2, 6);
    expect(normalized?.data[1]).toBeCloseTo(-1.4, 6);
  });

  test("a constant whose bytes do not fill its shape is a bug", () => {
    const graph = new OnnxGraph();
    expect(() => graph.constant("int8", [2, 2], Int8Array.of(1, 2, 3))).toThrow(
      "a int8 tensor of shape [2, 2] has 3 bytes",
    );
  });

  test("an operator without a first output is a bug", () => {
    const graph = new OnnxGraph();
    expect(() => graph.apply("Abs", ["x"], { outputs: [] })).toThrow("Abs has no first output");
  });
});
