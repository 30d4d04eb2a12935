import { createHash } from "node:crypto";
import type { HashBlock } from "./engine/kv-cache/block-chain.ts";

/**
 * Hashes a block onto its parent with SHA-256. Parent and adapter carry their lengths and tokens
 * are 32 bits each, so different arguments are different bytes; a hit across tenants would need a
 * collision.
 */
export const hashBlock: HashBlock = (parent, tokens, adapter = "") => {
  const parentBytes = Buffer.from(parent, "utf8");
  const adapterBytes = Buffer.from(adapter, "utf8");
  const lengthBytes = Buffer.alloc(8);
  lengthBytes.writeUInt32LE(parentBytes.length, 0);
  lengthBytes.writeUInt32LE(adapterBytes.length, 4);
  const words = Int32Array.from(tokens);
  return createHash("sha256")
    .update(lengthBytes)
    .update(parentBytes)
    .update(adapterBytes)
    .update(new Uint8Array(words.buffer))
    .digest("base64url");
};
