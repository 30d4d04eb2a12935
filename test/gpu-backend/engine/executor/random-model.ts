import type { LayerWeights, LoadedModel } from "../../../../gpu-backend/engine/model/load-model.ts";
import { type HeldMatrix, holdMatrix } from "../../../../gpu-backend/engine/model/matrix.ts";
import type { ModelConfig } from "../../../../gpu-backend/engine/model/model-config.ts";
import { seededRandom } from "../../../../src/base/random.ts";

/** A small configuration whose sizes are no multiples of a vector's width, except where they must. */
export function aConfig(changes: Partial<ModelConfig> = {}): ModelConfig {
  return {
    hiddenSize: 37,
    layerCount: 2,
    headCount: 6,
    kvHeadCount: 2,
    headDimensions: 16,
    mlpSize: 51,
    vocabularyTokens: 61,
    contextTokens: 256,
    ropeTheta: 10_000,
    ropeScaling: { kind: "default" },
    normEpsilon: 1e-5,
    normOffset: 0,
    embeddingScale: 1,
    activation: "silu",
    biases: { qkv: false, attentionOutput: false, mlp: false },
    headNorms: false,
    fusedTensors: false,
    tiedEmbeddings: false,
    eosTokenIds: [2],
    notes: [],
    ...changes,
  };
}

/** A model of random weights, large enough that attention and MLP both matter. */
export function aModel(seed: number, config: ModelConfig = aConfig()): LoadedModel {
  const random = seededRandom(seed);
  let parameterCount = 0;
  const vector = (size: number, center: number, spread: number): Float32Array => {
    parameterCount += size;
    return Float32Array.from({ length: size }, () => center + spread * (2 * random() - 1));
  };
  const matrix = (outputs: number, inputs: number) =>
    holdMatrix(outputs, inputs, vector(outputs * inputs, 0, 2 / Math.sqrt(inputs)));
  const { hiddenSize, mlpSize, vocabularyTokens } = config;
  const querySize = config.headCount * config.headDimensions;
  const kvSize = config.kvHeadCount * config.headDimensions;
  const norm = () => vector(hiddenSize, 1, 0.5);
  const embedding = matrix(vocabularyTokens, hiddenSize);
  const layers = Array.from({ length: config.layerCount }, (): LayerWeights => ({
    attentionNorm: norm(),
    query: matrix(querySize, hiddenSize),
    key: matrix(kvSize, hiddenSize),
    value: matrix(kvSize, hiddenSize),
    attentionOutput: matrix(hiddenSize, querySize),
    mlpNorm: norm(),
    gate: matrix(mlpSize, hiddenSize),
    up: matrix(mlpSize, hiddenSize),
    down: matrix(hiddenSize, mlpSize),
  }));
  const finalNorm = norm();
  const head = config.tiedEmbeddings ? embedding : matrix(vocabularyTokens, hiddenSize);
  return {
    config,
    embedding,
    layers,
    finalNorm,
    head,
    parameterCount,
    eosTokenIds: config.eosTokenIds,
    revision: () => `random-${seed}`,
    close: () => {},
  };
}

/** A matrix of these rows, one for each output. */
export function matrixOf(rows: readonly (readonly number[])[]): HeldMatrix {
  return holdMatrix(rows.length, rows[0]?.length ?? 0, Float32Array.from(rows.flat()));
}
