import { assert } from "../../../src/base/assert.ts";
import type { LayerWeights, LoadedModel } from "../model/load-model.ts";
import type { BufferName, StagePlan } from "./stage.ts";
import {
  applyGate,
  applyNorm,
  applyProduct,
  applySumAndNorm,
  gateAndUpMatrix,
  graphStage,
  qkvMatrix,
} from "./transformer-parts.ts";

/**
 * A model of L layers in f32: L + 1 graphs with an attention between any two, and the head. What lies
 * between two attentions is one graph, so ONNX Runtime keeps all of it in memory of its own. Embeddings
 * are looked up by our own kernel, since a table in a graph is there twice while it is loaded.
 *
 * Stages are built as they are taken: together they would hold all of the weights once more.
 */
export function* planF32(model: LoadedModel): Generator<StagePlan> {
  const { config, embedding, layers, finalNorm, head } = model;
  const { normEpsilon: epsilon } = config;
  const [firstLayer] = layers;
  assert(firstLayer !== undefined, "a model has layers");
  yield { kind: "embed", table: embedding, scale: config.embeddingScale };
  yield graphStage(config, ["hidden"], ["qkv"], (graph) => {
    const norm = { weights: firstLayer.attentionNorm, epsilon };
    applyNorm(graph, "hidden", norm, "normalized");
    applyProduct(graph, "normalized", qkvOf(firstLayer), "qkv");
  });
  let hidden: BufferName = "hidden";
  for (const [index, layer] of layers.entries()) {
    const next = layers[index + 1];
    const input: BufferName = hidden;
    const sum: BufferName = input === "hidden" ? "hidden2" : "hidden";
    const { headNorms } = layer;
    if (headNorms !== undefined) yield { kind: "head-norms", ...headNorms, epsilon };
    yield { kind: "attention", layer: index };
    if (next === undefined) yield { kind: "pick", buffer: input };
    const outputs: readonly BufferName[] = next === undefined ? ["normalized"] : [sum, "qkv"];
    yield graphStage(config, [input, "attended"], outputs, (graph) => {
      const { attentionOutput, attentionOutputBias, down, downBias } = layer;
      const attentionProduct = { matrix: attentionOutput, bias: attentionOutputBias };
      applyProduct(graph, "attended", attentionProduct, "projected");
      const mlpNorm = { weights: layer.mlpNorm, epsilon };
      applySumAndNorm(graph, ["projected", input], mlpNorm, {
        sum: "residual",
        normalized: "mlp_normalized",
      });
      applyProduct(graph, "mlp_normalized", gateAndUpOf(layer), "gate_and_up");
      applyGate(graph, "gate_and_up", config, "activated");
      applyProduct(graph, "activated", { matrix: down, bias: downBias }, "mlp");
      if (next === undefined) {
        const norm = { weights: finalNorm, epsilon };
        applySumAndNorm(graph, ["mlp", "residual"], norm, { normalized: "normalized" });
      } else {
        const norm = { weights: next.attentionNorm, epsilon };
        applySumAndNorm(graph, ["mlp", "residual"], norm, { sum, normalized: "normalized" });
        applyProduct(graph, "normalized", qkvOf(next), "qkv");
      }
    });
    hidden = sum;
  }
  yield { kind: "split" };
  yield graphStage(config, ["normalized"], ["logits"], (graph) => {
    applyProduct(graph, "normalized", { matrix: head }, "logits");
  });
}

const qkvOf = (layer: LayerWeights) => ({ matrix: qkvMatrix(layer), bias: layer.qkvBias });

const gateAndUpOf = (layer: LayerWeights) => ({
  matrix: gateAndUpMatrix(layer),
  bias: layer.gateAndUpBias,
});
