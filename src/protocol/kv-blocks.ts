import * as z from "zod";

/** Where an engine of ours gives KV to another one; needs the replica secret. */
export const KV_BLOCKS_PATH = "/internal/kv/blocks";
/** How many blocks an answer has, which follow in its body. */
export const KV_BLOCK_COUNT_HEADER = "x-gw-kv-blocks";
/** Blocks of one transfer: what is longer is computed from there on. */
export const KV_BLOCKS_MAX = 16_384;

const Count = z.int().min(1).max(1e9);

/** All that KV depends on besides the tokens, which its hash names. */
const KvVersionText = z.strictObject({
  layout: z.string().max(64),
  model_revision: z.string().max(512),
  block_tokens: Count,
  block_bytes: Count,
});

/** Asks for the KV of a beginning, block by block; a hash covers all tokens before its block, and the salt. */
export const KvBlocksRequest = z.object({
  version: KvVersionText,
  hashes: z
    .array(z.string().regex(/^[\w-]{8,64}$/, "a hash"))
    .min(1)
    .max(KV_BLOCKS_MAX),
});
export type KvBlocksRequest = z.infer<typeof KvBlocksRequest>;
