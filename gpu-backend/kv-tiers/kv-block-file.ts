import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";

/**
 * What a stored block is good for: all that KV depends on besides the tokens, which its hash names.
 * Blocks of another version are never looked at.
 */
export interface KvVersion {
  /** Weights, configuration, precision, and the runtime where that matters. */
  readonly modelRevision: string;
  readonly blockTokens: number;
  readonly blockBytes: number;
}

/** Counts up with what the bytes of a block mean; their element type is in the revision. */
export const KV_LAYOUT = "tiles-1";
const MAGIC = 0x31764b53;
const HEADER_BYTES = 12;

/** A short name that differs where anything in the version does. */
export function versionName({ modelRevision, blockTokens, blockBytes }: KvVersion): string {
  const text = JSON.stringify([KV_LAYOUT, modelRevision, blockTokens, blockBytes]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** What keeps KV of one version from being of use to an engine of another, in words; `undefined`: nothing. */
export function describeMismatch(found: KvVersion, own: KvVersion): string | undefined {
  const parts = [
    ["modelRevision", "model revision and precision"],
    ["blockTokens", "tokens of a block"],
    ["blockBytes", "bytes of a block"],
  ] as const;
  const different = parts.filter(([part]) => found[part] !== own[part]);
  if (different.length === 0) return undefined;
  const words = different.map(([part, name]) => `${name} ${own[part]}, not ${found[part]}`);
  return `This engine has KV of ${words.join(", and ")}`;
}

/** A block as a file: a magic number, its length, its checksum, then the KV. */
export function encodeBlock(bytes: Uint8Array): Uint8Array {
  const file = new Uint8Array(HEADER_BYTES + bytes.byteLength);
  const header = new DataView(file.buffer);
  header.setUint32(0, MAGIC, true);
  header.setUint32(4, bytes.byteLength, true);
  header.setUint32(8, crc32(bytes), true);
  file.set(bytes, HEADER_BYTES);
  return file;
}

/** The KV of a file, or `undefined` if the file is not sound and whole. */
export function decodeBlock(file: Uint8Array, blockBytes: number): Uint8Array | undefined {
  if (file.byteLength !== HEADER_BYTES + blockBytes) return undefined;
  const header = new DataView(file.buffer, file.byteOffset, HEADER_BYTES);
  if (header.getUint32(0, true) !== MAGIC) return undefined;
  if (header.getUint32(4, true) !== blockBytes) return undefined;
  const bytes = file.subarray(HEADER_BYTES);
  return header.getUint32(8, true) === crc32(bytes) ? bytes : undefined;
}

/** The size of a file that holds a block. */
export function fileBytesOf(blockBytes: number): number {
  return HEADER_BYTES + blockBytes;
}
