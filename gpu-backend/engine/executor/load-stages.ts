import type { LoadedModel } from "../model/load-model.ts";
import type { Int8Matrix, Int8Product } from "./int8-product.ts";
import { planF32 } from "./plan-f32.ts";
import { planInt8 } from "./plan-int8.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";
import type { LoadedFloats, RowOperations } from "./row-operations.ts";
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
  | { readonly kind: "embed"; readonly table: LoadedFloats }
  | { readonly kind: "norm"; readonly weights: LoadedFloats; readonly epsilon: number }
  | Extract<StagePlan, { kind: "add" | "gate" | "attention" | "pick" | "split" }>;

/** What stages run on. */
export interface StageEngines {
  readonly runtime: SegmentRuntime;
  readonly product: Int8Product;
  readonly rows: RowOperations;
}

/** Loads all stages of a model; `weightBytes` is what their weights take. */
export async function loadStages(
  model: LoadedModel,
  precision: Precision,
  { runtime, product, rows }: StageEngines,
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
        const matrix = await product.load(plan.matrix);
        weightBytes += matrix.byteLength;
        stages.push({ ...plan, matrix });
        break;
      }
      case "embed": {
        const table = rows.load(plan.table.values);
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
