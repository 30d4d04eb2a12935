import { join } from "node:path";
import { messageOf } from "../message-of.ts";
import { beginTokensOf } from "./begin-tokens.ts";
import { Detokenizer } from "./detokenizer.ts";
import { type PromptPiece, SpecialTokens } from "./special-tokens.ts";
import { dropsFirstSpace, SPACE_MARK } from "./sentencepiece-file.ts";
import { createTextEncoder, type TextTokens } from "./text-encoder.ts";
import { tokenBytesOf, type TokenBytes } from "./token-bytes.ts";
import { type AnyTokenizerFile, isSentencePiece, readTokenizerFile } from "./tokenizer-files.ts";

const UTF8 = new TextEncoder();
const BYTE_VALUES = 256;

/**
 * Text to token ids and back, for byte-level BPE and for what was SentencePiece's.
 *
 * Text is only text: `<|end|>` in it becomes the tokens of its characters, because the encoder
 * does not know the special tokens at all. They come from `specialTokens.split`, which sees
 * nothing but what we wrote ourselves.
 */
export class Tokenizer {
  readonly specialTokens: SpecialTokens;
  readonly tokenBytes: TokenBytes;
  /** Texts of the special tokens before every text; undefined where the file leaves that open. */
  readonly #beginTokens: readonly string[] | undefined;
  readonly #encode: TextTokens;
  /** The text as its tokens will hold it, as far as that changes its bytes. */
  readonly #normalize: (text: string) => string;
  readonly #dropsFirstSpace: boolean;
  /** For each byte the length of the longest token that holds it, in bytes. */
  readonly #longestTokenBytes: Uint32Array;

  constructor(file: AnyTokenizerFile) {
    this.specialTokens = new SpecialTokens(file.added_tokens);
    this.tokenBytes = tokenBytesOf(file);
    this.#beginTokens = beginTokensOf(file);
    this.#encode = createTextEncoder(file);
    this.#normalize = normalizationOf(file);
    this.#dropsFirstSpace = isSentencePiece(file) && dropsFirstSpace(file);
    this.#longestTokenBytes = longestTokenBytes(this.tokenBytes);
  }

  /** Token ids run below it. */
  get vocabularyTokens(): number {
    return this.tokenBytes.vocabularyTokens;
  }

  /**
   * Encodes text in which nothing is special. Lone surrogates become U+FFFD. Some tokenizers write the
   * beginning of a text otherwise than what follows a special token.
   */
  encodeText(text: string, isBeginning = true): number[] {
    return text === "" ? [] : this.#encode(text, isBeginning);
  }

  /** The special tokens before every text; those in `unsaid` where the file leaves them open. */
  beginTokenIds(unsaid: readonly string[] = []): readonly number[] {
    const pieces = this.specialTokens.split((this.#beginTokens ?? unsaid).join(""));
    return pieces.filter((piece) => typeof piece === "number");
  }

  /** Encodes a prompt whose special tokens were found before. */
  encodePieces(pieces: readonly PromptPiece[]): number[] {
    return pieces.flatMap((piece, index) =>
      typeof piece === "number" ? [piece] : this.encodeText(piece, index === 0),
    );
  }

  /**
   * A lower bound of the tokens that pieces encode to, at the cost of counting their bytes: what
   * cannot fit need not be encoded. A byte costs at least its share of the longest token that
   * holds it.
   */
  fewestTokens(pieces: readonly PromptPiece[]): number {
    const byteCounts = new Float64Array(BYTE_VALUES);
    let specialTokens = 0;
    for (const piece of pieces) {
      if (typeof piece === "number") specialTokens += 1;
      else this.#countBytes(piece, byteCounts);
    }
    const tokens = byteCounts.reduce((sum, count, byte) => {
      return count === 0 ? sum : sum + count / (this.#longestTokenBytes[byte] ?? 1);
    }, 0);
    // The sum of 256 quotients may lie a little above the whole number that it means.
    return specialTokens + Math.ceil(tokens - ROUNDING_TOKENS);
  }

  /** The text of a whole text's tokens; special tokens have none. Bytes that are no characters are U+FFFD. */
  decode(tokenIds: readonly number[]): string {
    const detokenizer = new Detokenizer(this.tokenBytes);
    const text = tokenIds.map((tokenId) => detokenizer.push(tokenId)).join("") + detokenizer.end();
    return this.#dropsFirstSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  #countBytes(text: string, byteCounts: Float64Array): void {
    for (const byte of UTF8.encode(this.#normalize(text))) {
      byteCounts[byte] = (byteCounts[byte] ?? 0) + 1;
    }
  }
}

const ROUNDING_TOKENS = 1e-6;

/** Loads the tokenizer of a model's folder; throws naming the file and all that is wrong with it. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const file = await readTokenizerFile(folder);
  try {
    return new Tokenizer(file);
  } catch (cause) {
    const path = join(folder, "tokenizer.json");
    throw new Error(`Cannot use ${path}: ${messageOf(cause)}`, { cause });
  }
}

function longestTokenBytes(tokenBytes: TokenBytes): Uint32Array {
  const longest = new Uint32Array(BYTE_VALUES);
  for (let tokenId = 0; tokenId < tokenBytes.vocabularyTokens; tokenId += 1) {
    const bytes = tokenBytes.of(tokenId);
    for (const byte of bytes) longest[byte] = Math.max(longest[byte] ?? 0, bytes.length);
  }
  return longest;
}

/** A mark in a text is not told from a space, in whatever number. */
function normalizationOf(file: AnyTokenizerFile): (text: string) => string {
  if (isSentencePiece(file)) return (text) => text.replaceAll(SPACE_MARK, " ");
  return file.normalizer === null ? (text) => text : (text) => text.normalize("NFC");
}
