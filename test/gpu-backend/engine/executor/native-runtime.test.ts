import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  hasNativePackage,
  loadNativeBinding,
  loadNativePackage,
} from "../../../../gpu-backend/engine/executor/native-package.ts";
import { integerProductGraph } from "../../../../gpu-backend/engine/executor/integer-product-graph.ts";
import { NativeRuntime } from "../../../../gpu-backend/engine/executor/native-runtime.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import {
  candidatesFor,
  openRuntime,
} from "../../../../gpu-backend/engine/executor/open-runtime.ts";
import { aBatch, blocksFrom } from "./batches.ts";
import { MODELS } from "./golden.ts";

const isHere = hasNativePackage();
const PROMPT = Array.from({ length: 90 }, (_, index) => 300 + ((index * 37) % 3000));

const logitsOf = (executor: OnnxExecutor) =>
  executor.run(aBatch([{ tokens: PROMPT, blockTable: blocksFrom(0, 8), output: "all" }]));

test.skipIf(isHere)("without onnxruntime-node, who asks for it is told what to type", async () => {
  await expect(openRuntime(candidatesFor("node", "f32"))).rejects.toThrow(
    /onnxruntime-node is not installed; ONNXRUNTIME_NODE_INSTALL=skip npm install/,
  );
  const kinds = candidatesFor("auto", "f32").map(({ kind }) => kind);
  expect(kinds, "who does not is served all the same").toEqual(["direct", "public"]);
});

async function failToBind(): Promise<never> {
  throw new Error("expected onnxruntime-node 1.30.0, found 1.31.0");
}

// Skipped where onnxruntime-node is not installed: it is no dependency of ours. See .ci/run.
describe.skipIf(!isHere)("on node, where onnxruntime-node is installed", () => {
  test("it is what auto takes first", () => {
    const kinds = candidatesFor("auto", "f32").map(({ kind }) => kind);
    expect(kinds).toEqual(["native", "native-public", "direct", "public"]);
  });

  test("views are taken anew after the memory has grown", async () => {
    const runtime = await NativeRuntime.create(loadNativePackage());
    const before = runtime.memory.buffer;
    runtime.allocate(2 ** 24);
    expect(runtime.memory.buffer).not.toBe(before);
    await runtime.close();
  });

  test("the copies of outputs that its binding makes are freed at once", async () => {
    const runtime = await NativeRuntime.create(loadNativeBinding());
    const [inputs, outputs, rows] = [2, 4096, 64];
    const values = new Int8Array(inputs * outputs);
    const segment = await runtime.load(integerProductGraph({ inputs, outputs, values }));
    const x = runtime.allocate(rows * inputs);
    const y = runtime.allocate(rows * outputs * 4);
    const before = process.memoryUsage().arrayBuffers;
    // Ten times a megabyte: less than what makes the collector run.
    for (let run = 0; run < 10; run++) {
      await segment.run(
        [{ type: "uint8", address: x, shape: [rows, inputs] }],
        [{ type: "int32", address: y, shape: [rows, outputs] }],
      );
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 21);
    await runtime.close();
  });

  test("a binding that is not as expected leaves the documented API, with the same bits", async () => {
    const [bound, documented] = candidatesFor("node", "f32");
    if (bound === undefined || documented === undefined) throw new Error("there are two ways");
    const opened = await openRuntime([{ ...bound, open: failToBind }, documented]);
    expect(opened.kind).toBe("native-public");
    expect(opened.notes.join()).toContain("found 1.31.0");
    await opened.runtime.close();
  });

  test("all ways give the same bits", async () => {
    for (const precision of ["f32", "int8"] as const) {
      const logits: Float32Array[] = [];
      for (const runtimeKind of ["native", "native-public"] as const) {
        const executor = await createOnnxExecutor({
          model: `${MODELS}/sluice-tiny-draft`,
          precision,
          runtime: "node",
          runtimeKind,
          blockTokens: 16,
          blockCount: 8,
          batchTokensMax: 128,
        });
        logits.push((await logitsOf(executor)).values.slice());
        await executor.close();
      }
      expect(logits[1]).toEqual(logits[0]);
    }
  });

  describe.each(["f32", "int8"] as const)("the bundled model in %s", (precision) => {
    const executors: OnnxExecutor[] = [];
    beforeAll(async () => {
      for (const runtime of ["wasm", "node"] as const) {
        executors.push(
          await createOnnxExecutor({
            model: `${MODELS}/sluice-tiny`,
            precision,
            runtime,
            blockTokens: 16,
            blockCount: 8,
            batchTokensMax: 128,
          }),
        );
      }
    }, 60_000);
    afterAll(async () => {
      for (const executor of executors) await executor.close();
    });

    test("logits are those of wasm: the same bits in int8, within 1e-3 in f32", async () => {
      const [wasm, native] = executors;
      if (wasm === undefined || native === undefined) throw new Error("two executors were made");
      const expected = (await logitsOf(wasm)).values.slice();
      const found = (await logitsOf(native)).values;
      expect(found.length).toBe(expected.length);
      const worst = expected.reduce(
        (soFar, value, index) => Math.max(soFar, Math.abs(value - (found[index] ?? Infinity))),
        0,
      );
      expect(worst).toBeLessThanOrEqual(precision === "int8" ? 0 : 1e-3);
      expect(native.revision === wasm.revision, "equal KV has an equal name").toBe(
        precision === "int8",
      );
    });
  });
});
