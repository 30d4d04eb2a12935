import type { LoadedModel } from "../model/load-model.ts";
import type { BufferName, StagePlan } from "./stage.ts";
import { gateAndUpMatrix, qkvMatrix } from "./transformer-parts.ts";

/**
 * A model in int8, all by our own kernels: calls of ONNX Runtime between two products would cost more
 * than what they compute. All matrices are int8, the output matrix too; the embedding's rows, the
 * norms and what is added up stay f32.
 *
 * Stages are built as they are taken: together they would hold all of the weights once more.
 */
export function* planInt8(model: LoadedModel): Generator<StagePlan> {
  const { config, embedding, layers, finalNorm, head } = model;
  const { normEpsilon: epsilon } = config;
  yield { kind: "embed", table: embedding, scale: config.embeddingScale };
  for (const [index, layer] of layers.entries()) {
    const { attentionNorm, attentionOutput, mlpNorm, down, headNorms } = layer;
    yield { kind: "norm", norm: { weights: attentionNorm, epsilon } };
    yield { kind: "product", matrix: qkvMatrix(layer), input: "normalized", output: "qkv" };
    yield* bias("qkv", layer.qkvBias);
    if (headNorms !== undefined) yield { kind: "head-norms", ...headNorms, epsilon };
    yield { kind: "attention", layer: index };
    if (index === layers.length - 1) yield { kind: "pick", buffer: "hidden" };
    yield { kind: "product", matrix: attentionOutput, input: "attended", output: "projected" };
    yield* bias("projected", layer.attentionOutputBias);
    yield { kind: "add", input: "projected" };
    yield { kind: "norm", norm: { weights: mlpNorm, epsilon } };
    const gateAndUp = gateAndUpMatrix(layer);
    yield { kind: "product", matrix: gateAndUp, input: "normalized", output: "gateAndUp" };
    yield* bias("gateAndUp", layer.gateAndUpBias);
    yield { kind: config.activation === "silu" ? "gate" : "gelu-gate" };
    yield { kind: "product", matrix: down, input: "activated", output: "projected" };
    yield* bias("projected", layer.downBias);
    yield { kind: "add", input: "projected" };
  }
  yield { kind: "norm", norm: { weights: finalNorm, epsilon } };
  yield { kind: "split" };
  yield { kind: "product", matrix: head, input: "normalized", output: "logits" };
}

function* bias(buffer: BufferName, values: Float32Array | undefined): Generator<StagePlan> {
  if (values !== undefined) yield { kind: "bias", buffer, values };
}
