import { createHash, createHmac } from "node:crypto";
import type { KeyPrimitives } from "../../src/prompt-cache/fields.ts";

/** What the derivations of cache keys need, by Node's own crypto. */
export const KEY_PRIMITIVES: KeyPrimitives = {
  hmacSha256: (key, message) => createHmac("sha256", key).update(message).digest(),
  sha256: (...parts) => {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  },
  encodeUtf8: (text) => new TextEncoder().encode(text),
};
