import type { LoadedModel } from "../model/load-model.ts";
import type { StagePlan } from "./stage.ts";
import {
  applyEmbedding,
  applyGate,
  applyNorm,
  applySumAndNorm,
  gateAndUpMatrix,
  graphStage,
  qkvMatrix,
} from "./transformer-parts.ts";

/**
 * A model in int8: our own kernel multiplies, ONNX Runtime computes what lies between two products.
 * All matrices are int8, the output matrix too; the embedding's rows and the norms stay f32.
 *
 * Stages are built as they are taken: together they would hold all of the weights once more.
 */
export function* planInt8(model: LoadedModel): Generator<StagePlan> {
  const { config, embedding, layers, finalNorm, head } = model;
  const { mlpSize, normEpsilon: epsilon } = config;
  yield graphStage(config, ["tokens"], ["hidden", "normalized"], (graph) => {
    applyEmbedding(graph, "tokens", embedding, "hidden");
    const weights = layers[0]?.attentionNorm ?? finalNorm;
    applyNorm(graph, "hidden", { weights, epsilon }, "normalized");
  });
  for (const [index, layer] of layers.entries()) {
    yield { kind: "product", matrix: qkvMatrix(layer), input: "normalized", output: "qkv" };
    yield { kind: "attention", layer: index };
    if (index === layers.length - 1) yield { kind: "pick", buffer: "hidden" };
    const { attentionOutput, mlpNorm, down } = layer;
    yield { kind: "product", matrix: attentionOutput, input: "attended", output: "projected" };
    yield graphStage(config, ["projected", "hidden"], ["hidden2", "normalized"], (graph) => {
      const norm = { weights: mlpNorm, epsilon };
      const outputs = { sum: "hidden2", normalized: "normalized" };
      applySumAndNorm(graph, ["projected", "hidden"], norm, outputs);
    });
    const gateAndUp = gateAndUpMatrix(layer);
    yield { kind: "product", matrix: gateAndUp, input: "normalized", output: "gateAndUp" };
    yield graphStage(config, ["gateAndUp"], ["activated"], (graph) => {
      applyGate(graph, "gateAndUp", mlpSize, "activated");
    });
    yield { kind: "product", matrix: down, input: "activated", output: "projected" };
    yield graphStage(config, ["projected", "hidden2"], ["hidden", "normalized"], (graph) => {
      const weights = layers[index + 1]?.attentionNorm ?? finalNorm;
      const outputs = { sum: "hidden", normalized: "normalized" };
      applySumAndNorm(graph, ["projected", "hidden2"], { weights, epsilon }, outputs);
    });
  }
  yield { kind: "split" };
  yield { kind: "product", matrix: head, input: "normalized", output: "logits" };
}
