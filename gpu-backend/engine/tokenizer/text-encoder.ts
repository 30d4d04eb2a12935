import { Tokenizer as Encoder } from "@huggingface/tokenizers";
import { SPACE_MARK, type SentencePieceFile, spaceSchemeOf } from "./sentencepiece-file.ts";
import { type AnyTokenizerFile, isSentencePiece } from "./tokenizer-files.ts";
import type { BpeMerge } from "./tokenizer-schema.ts";

/** Encodes text that is not empty and in which nothing is special. */
export type TextTokens = (text: string, isBeginning: boolean) => number[];

/** Makes what encodes text by a tokenizer's file. */
export function createTextEncoder(file: AnyTokenizerFile): TextTokens {
  const ordinary = withoutSpecialTokens(file);
  if (!isSentencePiece(ordinary)) return encoderOf(ordinary);
  const scheme = spaceSchemeOf(ordinary);
  if (scheme !== "first") return encoderOf(inWords(ordinary, scheme));
  const beginning = encoderOf(inWords(ordinary, "always"));
  const further = encoderOf(inWords(ordinary, "never"));
  return (text, isBeginning) => (isBeginning ? beginning : further)(text);
}

function encoderOf(file: object): (text: string) => number[] {
  const encoder = new Encoder(file, {});
  return (text) => encoder.encode(text, { add_special_tokens: false }).ids;
}

/**
 * Takes the special tokens out of the encoder's vocabulary, and the merges that would make one,
 * so that no text at all encodes to them. Other added tokens are ordinary words and stay.
 */
function withoutSpecialTokens(file: AnyTokenizerFile): AnyTokenizerFile {
  const ids = new Set(file.added_tokens.filter((token) => token.special).map(({ id }) => id));
  const entries = Object.entries(file.model.vocab);
  const special = new Set(entries.filter(([, id]) => ids.has(id)).map(([token]) => token));
  const model = {
    ...file.model,
    vocab: Object.fromEntries(entries.filter(([token]) => !special.has(token))),
    merges: file.model.merges.filter((merge) => !special.has(mergedToken(merge))),
    // Every text can be written in bytes, so no character is unknown.
    unk_token: null,
  };
  const added_tokens = file.added_tokens.filter((token) => !token.special);
  return isSentencePiece(file)
    ? { ...file, added_tokens, model: { ...model, byte_fallback: true } }
    : { ...file, added_tokens, model };
}

function mergedToken(merge: BpeMerge): string {
  return typeof merge === "string" ? merge.replace(" ", "") : merge.join("");
}

/**
 * Cuts text into words before the merges. SentencePiece does not, and its time grows faster than the
 * text; but where no token has a mark behind another character, no merge crosses such a place, and
 * words encode to what the text does.
 */
function inWords(file: SentencePieceFile, prepend_scheme: "always" | "never"): object {
  const metaspace = file.pre_tokenizer?.type === "Metaspace" ? file.pre_tokenizer : undefined;
  const steps: object[] = [];
  if (metaspace !== undefined) steps.push({ ...metaspace, prepend_scheme });
  // "split" parts every mark from the one before, which the library leaves out.
  if (metaspace?.split === true) steps.push(splitBy(EACH_MARK));
  else if (!Object.keys(file.model.vocab).some((token) => MARK_WITHIN.test(token))) {
    steps.push(splitBy(RUNS_OF_MARKS));
  }
  const pre_tokenizer = steps.length === 0 ? null : { type: "Sequence", pretokenizers: steps };
  return { ...file, pre_tokenizer };
}

const MARK_WITHIN = new RegExp(`[^${SPACE_MARK}]${SPACE_MARK}`, "u");
const RUNS_OF_MARKS = `${SPACE_MARK}+[^${SPACE_MARK}]*|[^${SPACE_MARK}]+`;
const EACH_MARK = `${SPACE_MARK}[^${SPACE_MARK}]*|[^${SPACE_MARK}]+`;

function splitBy(regex: string): object {
  return { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
}
