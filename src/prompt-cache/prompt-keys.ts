import { CHAIN_BLOCK_BYTES, CHAIN_BLOCKS_MAX } from "../protocol/prompt-chain.ts";
import type { PromptPart } from "../protocol/prompt-parts.ts";
import { encodeBase64Url } from "./base64url.ts";
import { canonicalPrompt } from "./canonical-prompt.ts";
import type { KeyPrimitives } from "./fields.ts";
import { concatenate, field } from "./fields.ts";

/** What says where a prompt goes first, and where its beginning may be cached. Neither says what it is. */
export interface PromptKeys {
  /** Prompts of one owner that begin alike, under one key of their client's, have the same. */
  readonly route: string;
  /** A hash for each whole block that the prompt begins with, 22 characters of base64url each. */
  readonly hashes: readonly string[];
  /** Of the canonical prompt, which the blocks are of. */
  readonly promptBytes: number;
}

/** A model, as far as it says what a prompt is to it. */
export interface PromptModel {
  readonly modelRevision: string;
  /** Names how parts become a prompt. */
  readonly templateRevision: string;
}

export interface PromptOfModel {
  readonly parts: readonly PromptPart[];
  readonly modelRevision: string;
  /** The client's `prompt_cache_key`: what belongs together, in its own words. It changes the route alone. */
  readonly cacheKey?: string;
}

const TAG = {
  chain: 20,
  model: 21,
  template: 22,
  cacheKey: 23,
  cacheKeyText: 24,
  route: 25,
  routeModel: 26,
  head: 27,
  routeCacheKey: 28,
} as const;

/** Of a hash this much is told to others. */
const PUBLISHED_BYTES = 16;
/** The route goes by this block, counted from 0: behind about 256 tokens prompts are told apart enough. */
const HEAD_BLOCK = 1;

/** Derives what the first block's hash of each of an owner's prompts for a model is made over: 32 bytes. */
export function deriveChainRoot(
  namespace: Uint8Array,
  { modelRevision, templateRevision }: PromptModel,
  { hmacSha256, encodeUtf8 }: KeyPrimitives,
): Uint8Array {
  const message = concatenate(
    field(TAG.chain, encodeUtf8("gw/chain/v1")),
    field(TAG.model, encodeUtf8(modelRevision)),
    field(TAG.template, encodeUtf8(templateRevision)),
  );
  return hmacSha256(namespace, message);
}

/**
 * Derives a prompt's route and the chain of its blocks' hashes, each over its block and the hash before it.
 * All are of the owner's namespace, so that two owners' values are never alike nor comparable.
 */
export function derivePromptKeys(
  {
    namespace,
    chainRoot: root,
  }: { readonly namespace: Uint8Array; readonly chainRoot: Uint8Array },
  prompt: PromptOfModel,
  primitives: KeyPrimitives,
): PromptKeys {
  const { hmacSha256, sha256, encodeUtf8 } = primitives;
  const { modelRevision } = prompt;
  const bytes = canonicalPrompt(prompt.parts, primitives);
  const chain: Uint8Array[] = [];
  const blocks = Math.min(CHAIN_BLOCKS_MAX, Math.floor(bytes.length / CHAIN_BLOCK_BYTES));
  for (let block = 0; block < blocks; block += 1) {
    const start = block * CHAIN_BLOCK_BYTES;
    chain.push(sha256(chain.at(-1) ?? root, bytes.subarray(start, start + CHAIN_BLOCK_BYTES)));
  }
  const route = hmacSha256(
    namespace,
    concatenate(
      field(TAG.route, encodeUtf8("gw/route/v1")),
      field(TAG.routeModel, encodeUtf8(modelRevision)),
      field(TAG.head, chain[HEAD_BLOCK] ?? sha256(root, bytes)),
      field(TAG.routeCacheKey, cacheKeyField(namespace, prompt.cacheKey, primitives)),
    ),
  );
  return { route: published(route), hashes: chain.map(published), promptBytes: bytes.length };
}

function cacheKeyField(
  namespace: Uint8Array,
  cacheKey: string | undefined,
  { hmacSha256, encodeUtf8 }: KeyPrimitives,
): Uint8Array {
  if (cacheKey === undefined) return new Uint8Array();
  return hmacSha256(
    namespace,
    concatenate(
      field(TAG.cacheKey, encodeUtf8("gw/pck/v1")),
      field(TAG.cacheKeyText, encodeUtf8(cacheKey)),
    ),
  );
}

function published(hash: Uint8Array): string {
  return encodeBase64Url(hash.subarray(0, PUBLISHED_BYTES));
}
