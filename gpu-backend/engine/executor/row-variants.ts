import type { ModelConfig } from "../model/model-config.ts";
import { instantiateKernel } from "./kernel.ts";
import type { Stage } from "./load-stages.ts";
import type { LoadedFloats } from "./row-operations.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";
import type { BufferName } from "./stage.ts";

/** The exports of `gpu-backend/kernels/row-variants.ts`; addresses are bytes in its memory. */
interface VariantKernel {
  addBias(rows: number, rowCount: number, columns: number, bias: number): void;
  normalizeHeads(
    rows: number,
    rowBytes: number,
    rowCount: number,
    heads: number,
    dimensions: number,
    weights: number,
    epsilon: number,
  ): void;
  geluGate(gatesAndUps: number, rowCount: number, columns: number, results: number): void;
}

const FLOAT_BYTES = 4;

/** What only some models do between two products, by a kernel that no other model loads. */
export class RowVariants {
  readonly #runtime: SegmentRuntime;
  #kernel: VariantKernel | undefined;

  constructor(runtime: SegmentRuntime) {
    this.#runtime = runtime;
  }

  /** Adds a vector to each row. */
  bias(buffer: BufferName, { address, byteLength }: LoadedFloats): Stage {
    const columns = byteLength / FLOAT_BYTES;
    const kernel = this.#loaded();
    return {
      kind: "variant",
      buffers: [buffer],
      run: ([rows = 0], rowCount) => kernel.addBias(rows, rowCount, columns, address),
    };
  }

  /** Norms queries and keys head by head. */
  headNorms(
    norms: { readonly query: LoadedFloats; readonly key: LoadedFloats; readonly epsilon: number },
    { headCount, kvHeadCount, headDimensions }: ModelConfig,
  ): Stage {
    const { query, key, epsilon } = norms;
    const kernel = this.#loaded();
    const headBytes = headDimensions * FLOAT_BYTES;
    const rowBytes = (headCount + 2 * kvHeadCount) * headBytes;
    return {
      kind: "variant",
      buffers: ["qkv"],
      run: ([qkv = 0], rowCount) => {
        const normalize = (rows: number, heads: number, { address }: LoadedFloats) =>
          kernel.normalizeHeads(rows, rowBytes, rowCount, heads, headDimensions, address, epsilon);
        normalize(qkv, headCount, query);
        normalize(qkv + headCount * headBytes, kvHeadCount, key);
      },
    };
  }

  /** GELU(gate) × up. */
  geluGate({ mlpSize }: ModelConfig): Stage {
    const kernel = this.#loaded();
    return {
      kind: "variant",
      buffers: ["gateAndUp", "activated"],
      run: ([gatesAndUps = 0, activated = 0], rowCount) =>
        kernel.geluGate(gatesAndUps, rowCount, mlpSize, activated),
    };
  }

  #loaded(): VariantKernel {
    this.#kernel ??= instantiateKernel<VariantKernel>("row-variants", this.#runtime.memory, [
      "addBias",
      "normalizeHeads",
      "geluGate",
    ]);
    return this.#kernel;
  }
}
