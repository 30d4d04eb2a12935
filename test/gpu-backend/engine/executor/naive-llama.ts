import type { LayerWeights, LoadedModel } from "../../../../gpu-backend/engine/model/load-model.ts";
import type { Matrix } from "../../../../gpu-backend/engine/model/matrix.ts";

/** Logits after each token of a text, by the definition of a Llama, in f64 and without any cache. */
export function naiveLogits(model: LoadedModel, tokens: readonly number[]): number[][] {
  return naiveHidden(model, tokens).map((row) => multiply(model.head, row));
}

/** What the head is applied to: the last hidden state of each token, normed. */
export function naiveHidden(model: LoadedModel, tokens: readonly number[]): number[][] {
  const { normEpsilon } = model.config;
  let hidden = tokens.map((token) => Array.from(model.embedding.rows(token, 1)));
  for (const layer of model.layers) {
    const normalized = hidden.map((row) => normalize(row, layer.attentionNorm, normEpsilon));
    const attended = attend(model, layer, normalized);
    hidden = hidden.map((row, token) => add(row, multiply(layer.attentionOutput, attended[token])));
    hidden = hidden.map((row) => {
      const input = normalize(row, layer.mlpNorm, normEpsilon);
      const up = multiply(layer.up, input);
      const product = multiply(layer.gate, input).map(
        (gate, index) => (gate / (1 + Math.exp(-gate))) * (up[index] ?? 0),
      );
      return add(row, multiply(layer.down, product));
    });
  }
  return hidden.map((row) => normalize(row, model.finalNorm, normEpsilon));
}

function attend(model: LoadedModel, layer: LayerWeights, rows: readonly number[][]): number[][] {
  const { headCount, kvHeadCount } = model.config;
  const queries = rows.map((row, token) => rotate(model, multiply(layer.query, row), token));
  const keys = rows.map((row, token) => rotate(model, multiply(layer.key, row), token));
  const values = rows.map((row) => multiply(layer.value, row));
  return queries.map((query, token) =>
    Array.from({ length: headCount }, (_, head) => {
      const kvHead = Math.floor(head / (headCount / kvHeadCount));
      const own = headOf(model, query, head);
      const scores = keys.slice(0, token + 1).map((key) => {
        return dot(own, headOf(model, key, kvHead)) / Math.sqrt(own.length);
      });
      const highest = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - highest));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      return own.map((_value, dimension) =>
        weights.reduce((sum, weight, past) => {
          const value = headOf(model, values[past] ?? [], kvHead)[dimension] ?? 0;
          return sum + (weight / total) * value;
        }, 0),
      );
    }).flat(),
  );
}

function headOf(model: LoadedModel, row: readonly number[], head: number): number[] {
  const { headDimensions } = model.config;
  return row.slice(head * headDimensions, (head + 1) * headDimensions);
}

/** Rotary positions: the two halves of a head are the coordinates of its points. */
function rotate(model: LoadedModel, row: readonly number[], position: number): number[] {
  const { headDimensions, ropeTheta } = model.config;
  const half = headDimensions / 2;
  return row.map((value, index) => {
    const dimension = index % headDimensions;
    const angle = position * ropeTheta ** (-(dimension % half) / half);
    const partner = row[dimension < half ? index + half : index - half] ?? 0;
    return value * Math.cos(angle) + (dimension < half ? -partner : partner) * Math.sin(angle);
  });
}

function normalize(row: readonly number[], weights: Float32Array, epsilon: number): number[] {
  const inverse = 1 / Math.sqrt(dot(row, row) / row.length + epsilon);
  return row.map((value, index) => value * inverse * (weights[index] ?? 0));
}

function multiply(matrix: Matrix, row: readonly number[] = []): number[] {
  const values = matrix.rows(0, matrix.outputs);
  return Array.from({ length: matrix.outputs }, (_, output) => {
    const start = output * matrix.inputs;
    return row.reduce((sum, value, input) => sum + value * (values[start + input] ?? 0), 0);
  });
}

function add(a: readonly number[], b: readonly number[]): number[] {
  return a.map((value, index) => value + (b[index] ?? 0));
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
