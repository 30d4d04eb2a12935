import * as ort from "onnxruntime-web";
import { describe, expect, test } from "vitest";
import { freeTensors } from "../../../../gpu-backend/engine/executor/free-tensors.ts";

const MEBIBYTE = 2 ** 20;

describe("freeTensors()", () => {
  test("gives their memory back at once, without a collection", () => {
    const before = process.memoryUsage().arrayBuffers;
    for (let index = 0; index < 8; index++) {
      const sums = new ort.Tensor("int32", new Int32Array(MEBIBYTE / 4), [MEBIBYTE / 4]);
      freeTensors({ sums });
      expect(sums.data.length).toBe(0);
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 * MEBIBYTE);
  });

  test("leaves alone what is no memory of its own", () => {
    const shared = new Float32Array(new SharedArrayBuffer(16));
    freeTensors({
      words: new ort.Tensor("string", ["a"], [1]),
      // As from a runtime that works in a shared memory.
      shared: new ort.Tensor("float32", shared, [4]),
    });
    expect(shared.length).toBe(4);
  });
});
