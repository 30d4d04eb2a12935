import type { LoadedModel } from "./engine/model/load-model.ts";
import { type KvPrecision, kvTokenBytes, type ModelConfig } from "./engine/model/model-config.ts";

/** Beside the weights of a small model on a laptop, this much can be taken without asking. */
const KV_BYTES_DEFAULT = 128 * 1024 * 1024;

/**
 * The number of KV blocks where none is asked for: what fits 128 MiB, but at least one whole
 * context, or the engine could not keep what the model's card promises. Throws where that is too
 * little for a block a share: the operator has to say how large the pool is to be.
 */
export function defaultBlockCount(
  config: ModelConfig,
  {
    blockTokens,
    shareCount,
    kvPrecision,
  }: {
    readonly blockTokens: number;
    readonly shareCount: number;
    readonly kvPrecision: KvPrecision;
  },
): number {
  const blockBytes = kvTokenBytes(config, kvPrecision) * blockTokens;
  const fittingBlocks = Math.floor(KV_BYTES_DEFAULT / blockBytes);
  const blockCount = Math.max(fittingBlocks, Math.ceil(config.contextTokens / blockTokens));
  if (blockCount >= shareCount) return blockCount;
  throw new Error(
    `--kv-shares: expected at most ${blockCount}, the blocks of the default KV pool for this model, ` +
      `found ${shareCount}; --kv-blocks makes the pool larger`,
  );
}

/** The number of weights, each counted once where embedding and head are the same matrix. */
export function countParameters(model: LoadedModel): number {
  const matrices = new Set([model.embedding, model.head]);
  let parameterCount = model.finalNorm.length;
  for (const { attentionNorm, mlpNorm, ...layerMatrices } of model.layers) {
    parameterCount += attentionNorm.length + mlpNorm.length;
    for (const matrix of Object.values(layerMatrices)) matrices.add(matrix);
  }
  for (const { values } of matrices) parameterCount += values.length;
  return parameterCount;
}
