import { unreachable } from "../../../src/base/assert.ts";
import { EmbeddingTable } from "./embedding-table.ts";
import type { LoadedModel } from "../model/load-model.ts";
import type { ModelConfig } from "../model/model-config.ts";
import type { Int8Matrix, Int8Product } from "./int8-product.ts";
import { planF32 } from "./plan-f32.ts";
import { planInt8 } from "./plan-int8.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";
import type { Quantizer } from "./quantize.ts";
import type { LoadedFloats, RowOperations } from "./row-operations.ts";
import type { RowVariants } from "./row-variants.ts";
import type { BufferName, StagePlan } from "./stage.ts";

/** How the large matrices are stored and multiplied; fixed when the model is loaded. */
export type Precision = "f32" | "int8";

/** A stage that is ready to run; see `StagePlan`. */
export type Stage =
  | {
      readonly kind: "graph";
      readonly segment: Segment;
      readonly inputs: readonly BufferName[];
      readonly outputs: readonly BufferName[];
    }
  | {
      readonly kind: "product";
      readonly matrix: Int8Matrix;
      readonly input: BufferName;
      readonly output: BufferName;
    }
  | { readonly kind: "embed"; readonly table: EmbeddingTable }
  /** What only some models have: works on these buffers, given their addresses. */
  | {
      readonly kind: "variant";
      readonly buffers: readonly BufferName[];
      readonly run: (addresses: readonly number[], rowCount: number) => void;
    }
  | { readonly kind: "norm"; readonly weights: LoadedFloats; readonly epsilon: number }
  | Extract<StagePlan, { kind: "add" | "gate" | "attention" | "pick" | "split" }>;

/** What stages run on. */
export interface StageEngines {
  readonly runtime: SegmentRuntime;
  readonly product: Int8Product;
  readonly rows: RowOperations;
  readonly variants: RowVariants;
}

/** Loads all stages of a model; `weightBytes` is what their weights take. */
export async function loadStages(
  model: LoadedModel,
  precision: Precision,
  { runtime, product, rows, variants }: StageEngines,
  quantize?: Quantizer,
): Promise<{ readonly stages: readonly Stage[]; readonly weightBytes: number }> {
  const stages: Stage[] = [];
  let weightBytes = 0;
  for (const plan of precision === "f32" ? planF32(model) : planInt8(model)) {
    switch (plan.kind) {
      case "graph": {
        const { inputs, outputs } = plan.graph;
        const segment = await runtime.load(plan.graph);
        weightBytes += plan.graph.model.byteLength;
        stages.push({ kind: "graph", segment, inputs, outputs });
        break;
      }
      case "product": {
        const matrix = await product.load(plan.matrix, quantize);
        weightBytes += matrix.byteLength;
        stages.push({ ...plan, matrix });
        break;
      }
      case "embed": {
        const table = new EmbeddingTable(plan.table, plan.scale);
        weightBytes += table.byteLength;
        stages.push({ kind: "embed", table });
        break;
      }
      case "norm": {
        const weights = rows.load(plan.norm.weights);
        weightBytes += weights.byteLength;
        stages.push({ kind: "norm", weights, epsilon: plan.norm.epsilon });
        break;
      }
      case "bias":
      case "head-norms":
      case "gelu-gate": {
        const variant = loadVariant(plan, { rows, variants }, model.config);
        weightBytes += variant.weightBytes;
        stages.push(variant.stage);
        break;
      }
      case "add":
      case "gate":
      case "attention":
      case "pick":
      case "split":
        stages.push(plan);
        break;
    }
  }
  return { stages, weightBytes };
}

function loadVariant(
  plan: Extract<StagePlan, { kind: "bias" | "head-norms" | "gelu-gate" }>,
  { rows, variants }: Pick<StageEngines, "rows" | "variants">,
  config: ModelConfig,
): { readonly stage: Stage; readonly weightBytes: number } {
  switch (plan.kind) {
    case "bias": {
      const bias = rows.load(plan.values);
      return { stage: variants.bias(plan.buffer, bias), weightBytes: bias.byteLength };
    }
    case "head-norms": {
      const query = rows.load(plan.query);
      const key = rows.load(plan.key);
      const stage = variants.headNorms({ query, key, epsilon: plan.epsilon }, config);
      return { stage, weightBytes: query.byteLength + key.byteLength };
    }
    case "gelu-gate":
      return { stage: variants.geluGate(config), weightBytes: 0 };
  }
  return unreachable(plan);
}
