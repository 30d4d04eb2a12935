import { createHash } from "node:crypto";
import type { HashBlock } from "./engine/kv-cache/block-chain.ts";

/**
 * Hashes a block onto its parent with SHA-256. The parent carries its length and tokens are 32 bits
 * each, so different arguments are different bytes; a hit across tenants would need a collision.
 */
export const hashBlock: HashBlock = (parent, tokens) => {
  const parentBytes = Buffer.from(parent, "utf8");
  const lengthBytes = Buffer.alloc(4);
  lengthBytes.writeUInt32LE(parentBytes.length);
  const words = Int32Array.from(tokens);
  return createHash("sha256")
    .update(lengthBytes)
    .update(parentBytes)
    .update(new Uint8Array(words.buffer))
    .digest("base64url");
};
