import { describe, expect, test } from "vitest";
import { DirectRuntime } from "../../../../gpu-backend/engine/executor/direct-runtime.ts";
import { OnnxGraph } from "../../../../gpu-backend/engine/executor/onnx-writer.ts";
import { candidatesFor } from "../../../../gpu-backend/engine/executor/open-runtime.ts";

const PAGE_BYTES = 65_536;
const MEBIBYTE = 2 ** 20;

describe.each(candidatesFor("auto", "f32"))("the $kind runtime", ({ open }) => {
  test("memory is aligned, zeroed and nobody else's", async () => {
    const runtime = await open();
    const sizes = [1, 100, 64, 3 * PAGE_BYTES, 7];
    const regions = sizes.map((byteLength) => {
      const address = runtime.allocate(byteLength);
      const bytes = new Uint8Array(runtime.memory.buffer, address, byteLength);
      expect(address % 64).toBe(0);
      expect(bytes.every((byte) => byte === 0)).toBe(true);
      bytes.fill(255);
      return { address, byteLength };
    });
    // Views are taken anew: a memory that is not shared moves when it grows.
    const views = regions.map(({ address, byteLength }) => {
      return new Uint8Array(runtime.memory.buffer, address, byteLength);
    });
    for (const [index, bytes] of views.entries()) bytes.fill(index);
    for (const [index, bytes] of views.entries()) {
      expect(bytes.every((byte) => byte === index)).toBe(true);
    }
    await runtime.close();
  });

  test.each([2 ** 32 - 1, 2 ** 32, 2 ** 32 + 64])(
    "%d bytes are a RangeError",
    async (byteLength) => {
      const runtime = await open();
      runtime.allocate(64);
      expect(() => runtime.allocate(byteLength)).toThrow(RangeError);
      expect(new Uint8Array(runtime.memory.buffer, runtime.allocate(64), 64)[63]).toBe(0);
      await runtime.close();
    },
  );

  test("bytes that are no model are refused in ONNX Runtime's words", async () => {
    const runtime = await open();
    const graph = { model: Uint8Array.of(1, 2, 3), inputs: [], outputs: [] };
    await expect(runtime.load(graph)).rejects.toThrow(/protobuf/i);
    await runtime.close();
  });

  test("a segment that fails while it runs says why, and runs again", async () => {
    const graph = new OnnxGraph();
    graph.input("rows", "int32", ["N"]);
    const table = graph.constant("float32", [2, 1], Float32Array.of(10, 20));
    graph.apply("Gather", [table, "rows"], { outputs: ["picked"] });
    graph.output("picked", "float32", ["N", 1]);
    const runtime = await open();
    const segment = await runtime.load({
      model: graph.toModel(),
      inputs: ["rows"],
      outputs: ["picked"],
    });
    const rows = runtime.allocate(4);
    const picked = runtime.allocate(4);
    const run = async (row: number) => {
      new Int32Array(runtime.memory.buffer, rows, 1)[0] = row;
      await segment.run(
        [{ type: "int32", address: rows, shape: [1] }],
        [{ type: "float32", address: picked, shape: [1, 1] }],
      );
      return new Float32Array(runtime.memory.buffer, picked, 1)[0];
    };
    await expect(run(5)).rejects.toThrow(/out of data bounds/);
    await expect(run(1)).resolves.toBe(20);
    await runtime.close();
  });
});

test("a closed direct runtime leaves its whole heap to the next", async () => {
  const heaps = new Set<unknown>();
  let heapBytes = 0;
  for (let round = 0; round < 4; round++) {
    const runtime = await DirectRuntime.create();
    heaps.add(runtime.memory);
    new Uint8Array(runtime.memory.buffer, runtime.allocate(100 * MEBIBYTE), 1000).fill(1);
    await runtime.close();
    heapBytes = runtime.memory.buffer.byteLength;
  }
  expect(heaps.size).toBe(1);
  expect(heapBytes).toBeLessThan(300 * MEBIBYTE);
});
