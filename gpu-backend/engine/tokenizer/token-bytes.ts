import { assert } from "../../../src/base/assert.ts";
import { SPACE_MARK, type SentencePieceFile } from "./sentencepiece-file.ts";
import { type AnyTokenizerFile, isSentencePiece, type TokenizerFile } from "./tokenizer-files.ts";

/**
 * The bytes that each token adds to a text. Special tokens add none, nor do ids without a token,
 * which a model's padded logits can yield.
 */
export class TokenBytes {
  /** Token ids run below it. */
  readonly vocabularyTokens: number;
  readonly #bytes: Uint8Array;
  /** The bytes of token `id` lie from `starts[id]` to `starts[id + 1]`. */
  readonly #starts: Uint32Array;

  constructor(bytesById: ReadonlyMap<number, Uint8Array>) {
    this.vocabularyTokens = [...bytesById.keys()].reduce((max, id) => Math.max(max, id + 1), 0);
    this.#starts = new Uint32Array(this.vocabularyTokens + 1);
    for (let id = 0; id < this.vocabularyTokens; id += 1) {
      const length = bytesById.get(id)?.length ?? 0;
      this.#starts[id + 1] = (this.#starts[id] ?? 0) + length;
    }
    this.#bytes = new Uint8Array(this.#starts[this.vocabularyTokens] ?? 0);
    for (const [id, bytes] of bytesById) this.#bytes.set(bytes, this.#starts[id]);
  }

  /** A view of one token's bytes, not a copy. */
  of(tokenId: number): Uint8Array {
    return this.#bytes.subarray(this.#starts[tokenId] ?? 0, this.#starts[tokenId + 1] ?? 0);
  }

  /** Whether each id means the same there. */
  equals(other: TokenBytes): boolean {
    return (
      Buffer.from(this.#starts.buffer).equals(Buffer.from(other.#starts.buffer)) &&
      Buffer.from(this.#bytes.buffer).equals(Buffer.from(other.#bytes.buffer))
    );
  }
}

/** Reads the bytes of a tokenizer's tokens; throws unless every text can be written in them. */
export function tokenBytesOf(file: AnyTokenizerFile): TokenBytes {
  return isSentencePiece(file) ? sentencePieceTokenBytes(file) : byteLevelTokenBytes(file);
}

/** The bytes of tokens of characters, with spaces for their marks, and of tokens such as `<0x0A>`. */
function sentencePieceTokenBytes(file: SentencePieceFile): TokenBytes {
  const bytesById = new Map<number, Uint8Array>();
  for (const [token, id] of Object.entries(file.model.vocab)) {
    const [, hexadecimal] = BYTE_TOKEN.exec(token) ?? [];
    const byte = hexadecimal === undefined ? undefined : Number.parseInt(hexadecimal, 16);
    bytesById.set(id, byte === undefined ? textOf(token) : Uint8Array.of(byte));
  }
  for (const { id, special, content } of file.added_tokens) {
    bytesById.set(id, special ? new Uint8Array() : textOf(content));
  }
  requireEveryByte(bytesById);
  return new TokenBytes(bytesById);
}

const textOf = (token: string) => UTF8.encode(token.replaceAll(SPACE_MARK, " "));

const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/;

/** Reads the bytes of a byte-level BPE's tokens; throws unless each single byte is a token. */
export function byteLevelTokenBytes(file: TokenizerFile): TokenBytes {
  const bytesById = new Map<number, Uint8Array>();
  for (const [token, id] of Object.entries(file.model.vocab)) {
    bytesById.set(id, bytesOfToken(token));
  }
  for (const token of file.added_tokens) {
    bytesById.set(token.id, token.special ? new Uint8Array() : UTF8.encode(token.content));
  }
  requireEveryByte(bytesById);
  return new TokenBytes(bytesById);
}

function requireEveryByte(bytesById: ReadonlyMap<number, Uint8Array>): void {
  const single = [...bytesById.values()].filter((bytes) => bytes.length === 1);
  const singleBytes = new Set(single.map(([byte]) => byte));
  if (singleBytes.size !== BYTE_VALUES) {
    throw new Error(`Expected a token for each of 256 bytes, found ${singleBytes.size} of them`);
  }
}

const BYTE_VALUES = 256;
const UTF8 = new TextEncoder();

/** Byte-level vocabularies write each byte as one visible character; the byte of each of them. */
const BYTE_OF_CHARACTER = byteOfCharacter();

/**
 * GPT-2's table: the visible characters of Latin-1 stand for themselves, the other bytes are, in
 * order, the characters from U+0100 on.
 */
function byteOfCharacter(): ReadonlyMap<string, number> {
  const table = new Map<string, number>();
  let invisible = 0;
  for (let byte = 0; byte < BYTE_VALUES; byte += 1) {
    const codePoint = isVisible(byte) ? byte : 0x100 + invisible;
    if (!isVisible(byte)) invisible += 1;
    table.set(String.fromCodePoint(codePoint), byte);
  }
  assert(table.size === BYTE_VALUES, "two bytes share a character");
  return table;
}

function isVisible(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/** A token with a character outside the table was never made of bytes: it stands for its text. */
function bytesOfToken(token: string): Uint8Array {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) return UTF8.encode(token);
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
