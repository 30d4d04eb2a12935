import { Tokenizer as ByteLevelBpe } from "@huggingface/tokenizers";
import { Detokenizer } from "./detokenizer.ts";
import { type PromptPiece, SpecialTokens } from "./special-tokens.ts";
import { byteLevelTokenBytes, type TokenBytes } from "./token-bytes.ts";
import { type BpeMerge, readTokenizerFile, type TokenizerFile } from "./tokenizer-files.ts";

const UTF8 = new TextEncoder();
const BYTE_VALUES = 256;

/**
 * Text to token ids and back, for byte-level BPE.
 *
 * Text is only text: `<|end|>` in it becomes the tokens of its characters, because the encoder
 * does not know the special tokens at all. They come from `specialTokens.split`, which sees
 * nothing but what we wrote ourselves.
 */
export class Tokenizer {
  readonly specialTokens: SpecialTokens;
  readonly tokenBytes: TokenBytes;
  readonly #encoder: ByteLevelBpe;
  readonly #isNormalized: boolean;
  /** For each byte the length of the longest token that holds it, in bytes. */
  readonly #longestTokenBytes: Uint32Array;

  constructor(file: TokenizerFile) {
    this.specialTokens = new SpecialTokens(file.added_tokens);
    this.tokenBytes = byteLevelTokenBytes(file);
    this.#encoder = new ByteLevelBpe(withoutSpecialTokens(file), {});
    this.#isNormalized = file.normalizer !== null;
    this.#longestTokenBytes = longestTokenBytes(this.tokenBytes);
  }

  /** Token ids run below it. */
  get vocabularyTokens(): number {
    return this.tokenBytes.vocabularyTokens;
  }

  /** Encodes text in which nothing is special. Lone surrogates become U+FFFD. */
  encodeText(text: string): number[] {
    if (text === "") return [];
    return this.#encoder.encode(text, { add_special_tokens: false }).ids;
  }

  /** Encodes a prompt whose special tokens were found before. */
  encodePieces(pieces: readonly PromptPiece[]): number[] {
    return pieces.flatMap((piece) =>
      typeof piece === "number" ? [piece] : this.encodeText(piece),
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

  /** The text of tokens; special tokens have none. Bytes that are no characters are U+FFFD. */
  decode(tokenIds: readonly number[]): string {
    const detokenizer = new Detokenizer(this.tokenBytes);
    return tokenIds.map((tokenId) => detokenizer.push(tokenId)).join("") + detokenizer.end();
  }

  #countBytes(text: string, byteCounts: Float64Array): void {
    for (const byte of UTF8.encode(this.#isNormalized ? text.normalize("NFC") : text)) {
      byteCounts[byte] = (byteCounts[byte] ?? 0) + 1;
    }
  }
}

const ROUNDING_TOKENS = 1e-6;

/** Loads the tokenizer of a model's folder; throws naming the file and all that is wrong with it. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  return new Tokenizer(await readTokenizerFile(folder));
}

function longestTokenBytes(tokenBytes: TokenBytes): Uint32Array {
  const longest = new Uint32Array(BYTE_VALUES);
  for (let tokenId = 0; tokenId < tokenBytes.vocabularyTokens; tokenId += 1) {
    const bytes = tokenBytes.of(tokenId);
    for (const byte of bytes) longest[byte] = Math.max(longest[byte] ?? 0, bytes.length);
  }
  return longest;
}

/**
 * Takes the special tokens out of the encoder's vocabulary, and the merges that would make one,
 * so that no text at all encodes to them. Other added tokens are ordinary words and stay.
 */
function withoutSpecialTokens(file: TokenizerFile): TokenizerFile {
  const ids = new Set(file.added_tokens.filter((token) => token.special).map(({ id }) => id));
  const entries = Object.entries(file.model.vocab);
  const special = new Set(entries.filter(([, id]) => ids.has(id)).map(([token]) => token));
  return {
    ...file,
    added_tokens: file.added_tokens.filter((token) => !token.special),
    model: {
      ...file.model,
      vocab: Object.fromEntries(entries.filter(([token]) => !special.has(token))),
      merges: file.model.merges.filter((merge) => !special.has(mergedToken(merge))),
    },
  };
}

function mergedToken(merge: BpeMerge): string {
  return typeof merge === "string" ? merge.replace(" ", "") : merge.join("");
}
