import type { TokenBytes } from "./token-bytes.ts";

/** Keeps a leading U+FEFF: an answer is text in the middle of nowhere, not a file. */
const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true });
const NO_BYTES = new Uint8Array();

/**
 * Turns one answer's tokens into text, piece by piece, never half a character.
 *
 * A character may be spread over tokens: its first bytes wait for the rest. Bytes that can no
 * longer become a character are U+FFFD at once. The pieces joined equal the text of all bytes
 * decoded together. Costs O(bytes of the token); the state is at most three bytes.
 */
export class Detokenizer {
  readonly #tokenBytes: TokenBytes;
  #pending: Uint8Array = NO_BYTES;

  constructor(tokenBytes: TokenBytes) {
    this.#tokenBytes = tokenBytes;
  }

  /** True while the first bytes of a character wait for the rest of it. */
  get isWithinCharacter(): boolean {
    return this.#pending.length > 0;
  }

  /** Returns the text that this token completes, often all of its own, sometimes none. */
  push(tokenId: number): string {
    const bytes = concatenate(this.#pending, this.#tokenBytes.of(tokenId));
    const completeBytes = bytes.length - incompleteTailBytes(bytes);
    this.#pending = bytes.subarray(completeBytes);
    return UTF8.decode(bytes.subarray(0, completeBytes));
  }

  /** Returns what is left when no token follows: U+FFFD for a character that was cut off. */
  end(): string {
    const text = UTF8.decode(this.#pending);
    this.#pending = NO_BYTES;
    return text;
  }
}

function concatenate(head: Uint8Array, tail: Uint8Array): Uint8Array {
  if (head.length === 0) return tail;
  const joined = new Uint8Array(head.length + tail.length);
  joined.set(head);
  joined.set(tail, head.length);
  return joined;
}

const CHARACTER_BYTES_MAX = 4;

/**
 * Counts the bytes at the end that are the beginning of a character. A decoder starts anew at
 * every lead byte, whatever stood before it, so a cut in front of one changes no text.
 */
function incompleteTailBytes(bytes: Uint8Array): number {
  const earliest = Math.max(0, bytes.length - CHARACTER_BYTES_MAX + 1);
  for (let start = bytes.length - 1; start >= earliest; start -= 1) {
    const lead = bytes[start] ?? 0;
    if (isContinuation(lead)) continue;
    const length = bytes.length - start;
    const canGoOn = length < characterBytes(lead) && isPossibleSecond(lead, bytes[start + 1]);
    return canGoOn ? length : 0;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}

/** The length that a lead byte announces; 0 for bytes that begin no character. */
function characterBytes(lead: number): number {
  if (lead <= 0x7f) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/** Rules out overlong forms, surrogates and what lies past U+10FFFF, as the second byte shows. */
function isPossibleSecond(lead: number, second: number | undefined): boolean {
  if (second === undefined) return true;
  if (lead === 0xe0) return second >= 0xa0;
  if (lead === 0xed) return second <= 0x9f;
  if (lead === 0xf0) return second >= 0x90;
  if (lead === 0xf4) return second <= 0x8f;
  return true;
}
