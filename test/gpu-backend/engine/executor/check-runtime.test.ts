import { describe, expect, test } from "vitest";
import {
  checkRowsAlone,
  checkRuntime,
  multipliesExactly,
} from "../../../../gpu-backend/engine/executor/check-runtime.ts";
import { candidatesFor } from "../../../../gpu-backend/engine/executor/open-runtime.ts";
import { PublicRuntime } from "../../../../gpu-backend/engine/executor/public-runtime.ts";
import type {
  Segment,
  SegmentRuntime,
} from "../../../../gpu-backend/engine/executor/segment-runtime.ts";

/** The public runtime, with segments that run in another way. */
function brokenRuntime(breakRun: (run: Segment["run"]) => Segment["run"]): SegmentRuntime {
  const runtime = PublicRuntime.create();
  return {
    memory: runtime.memory,
    multipliesIntegers: false,
    allocate: (byteLength) => runtime.allocate(byteLength),
    load: async (graph) => {
      const segment = await runtime.load(graph);
      return { run: breakRun((inputs, outputs) => segment.run(inputs, outputs)) };
    },
    close: () => runtime.close(),
  };
}

describe("checkRuntime", () => {
  test.each(candidatesFor("auto", "f32"))("the $kind runtime passes", async ({ open }) => {
    const runtime = await open();
    await expect(checkRuntime(runtime)).resolves.toBeUndefined();
    await runtime.close();
  });

  test.each(candidatesFor("auto", "f32"))(
    "rows of the $kind runtime stand alone",
    async ({ open }) => {
      const runtime = await open();
      await expect(checkRowsAlone(runtime)).resolves.toBeUndefined();
      await runtime.close();
    },
  );

  test("a runtime that rounds otherwise where rows are many is found", async () => {
    const runtime = brokenRuntime((run) => async (inputs, outputs) => {
      await run(inputs, outputs);
      const [rows] = outputs;
      if (rows === undefined || (rows.shape[0] ?? 0) < 16) return;
      const values = new Float32Array(runtime.memory.buffer, rows.address, 1);
      values[0] = (values[0] ?? 0) * (1 + 2 ** -23);
    });
    await expect(checkRowsAlone(runtime)).rejects.toThrow("the same alone and among 16");
    await runtime.close();
  });

  test("products of bytes that saturate are found", async () => {
    const exact = PublicRuntime.create();
    await expect(multipliesExactly(exact)).resolves.toBe(true);
    await exact.close();
    const runtime = brokenRuntime((run) => async (inputs, outputs) => {
      await run(inputs, outputs);
      const [sums] = outputs;
      if (sums === undefined) throw new Error("there are sums");
      const count = sums.shape.reduce((product, size) => product * size, 1);
      const values = new Int32Array(memory.buffer, sums.address, count);
      values.forEach((sum, index) => (values[index] = Math.min(sum, 127 * 127 * 90)));
    });
    const { memory } = runtime;
    await expect(multipliesExactly(runtime)).resolves.toBe(false);
    await runtime.close();
  });

  test("a runtime that writes nothing fails", async () => {
    const runtime = brokenRuntime(() => async () => undefined);
    await expect(checkRuntime(runtime)).rejects.toThrow("row 0 of 1 is");
  });

  test("a runtime that forgets a row after the shape changed fails", async () => {
    const runtime = brokenRuntime((run) => (inputs, outputs) => {
      const firstRow = [{ type: "float32", address: 0, shape: [1, 2] }] as const;
      const [input] = inputs;
      const [output] = outputs;
      if (input?.shape[0] !== 3 || output === undefined) return run(inputs, outputs);
      return run([{ ...firstRow[0], address: input.address }], [{ ...output, shape: [1, 3] }]);
    });
    await expect(checkRuntime(runtime)).rejects.toThrow("row 1 of 3 is");
  });

  test("a runtime that swallows errors fails", async () => {
    const runtime = brokenRuntime((run) => async (inputs, outputs) => {
      try {
        await run(inputs, outputs);
      } catch {
        // The error is what this runtime loses.
      }
    });
    await expect(checkRuntime(runtime)).rejects.toThrow("a wrong shape is reported");
  });
});
