import { type KvPrecision, kvTokenBytes, type ModelConfig } from "./engine/model/model-config.ts";

/** Beside the weights of a small model on a laptop, this much can be taken without asking. */
const KV_BYTES_DEFAULT = 128 * 1024 * 1024;

const BLOCKS_MIN = 2;
/** Long contexts of large models take gigabytes, which nobody should find taken who asked for nothing. */
const KV_BYTES_UNASKED_MAX = 2 ** 30;

/**
 * The number of KV blocks where none is asked for: what fits 128 MiB, but at least one whole
 * context, as far as that fits 1 GiB and `roomBytes`. Throws where that is too little for a block a
 * share: the operator has to say how large the pool is to be.
 */
export function defaultBlockCount(
  config: ModelConfig,
  pool: {
    readonly blockTokens: number;
    readonly shareCount: number;
    readonly kvPrecision: KvPrecision;
    readonly roomBytes: number;
  },
): number {
  const { blockTokens, shareCount, kvPrecision, roomBytes } = pool;
  const blockBytes = kvTokenBytes(config, kvPrecision) * blockTokens;
  const unasked = Math.floor(KV_BYTES_DEFAULT / blockBytes);
  const most = Math.floor(Math.min(KV_BYTES_UNASKED_MAX, roomBytes) / blockBytes);
  const wanted = Math.max(unasked, Math.ceil(config.contextTokens / blockTokens));
  const blockCount = Math.max(Math.min(wanted, most), BLOCKS_MIN);
  if (blockCount >= shareCount) return blockCount;
  throw new Error(
    `--kv-shares: expected at most ${blockCount}, the blocks of the default KV pool for this model, ` +
      `found ${shareCount}; --kv-blocks makes the pool larger`,
  );
}
