import llama2 from "llama-tokenizer-js";
import llama3 from "llama3-tokenizer-js";
import type { AnyTokenizerFile } from "../../../../gpu-backend/engine/tokenizer/tokenizer-files.ts";
import { SentencePieceFile } from "../../../../gpu-backend/engine/tokenizer/sentencepiece-file.ts";
import { TokenizerFile } from "../../../../gpu-backend/engine/tokenizer/tokenizer-files.ts";

/** What the packages that ship a tokenizer keep of it. */
interface ShippedTokenizer {
  readonly vocabById: readonly string[];
  readonly merges: ReadonlyMap<string, number>;
}

function modelOf({ vocabById, merges }: ShippedTokenizer): object {
  return {
    type: "BPE",
    vocab: Object.fromEntries(vocabById.map((token, id) => [token, id])),
    merges: [...merges].toSorted(([, a], [, b]) => a - b).map(([merge]) => merge),
  };
}

const special = (id: number, content: string) => ({ id, content, special: true });

/** tokenizer.json of Llama 2, whose vocabulary a package ships; `changes` are other files' ways to say it. */
export function llama2File(changes: object = {}): SentencePieceFile {
  return SentencePieceFile.parse({
    model: { ...modelOf(llama2), byte_fallback: true, unk_token: "<unk>" },
    added_tokens: [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "▁" },
        { type: "Replace", pattern: { String: " " }, content: "▁" },
      ],
    },
    pre_tokenizer: null,
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
    },
    ...changes,
  });
}

const LLAMA_3_WORDS =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** tokenizer.json of Llama 3, whose vocabulary a package ships. */
export function llama3File(): AnyTokenizerFile {
  return TokenizerFile.parse({
    model: { ...modelOf(llama3), ignore_merges: true },
    added_tokens: llama3.vocabById.flatMap((content, id) =>
      id < 128_000 ? [] : [special(id, content)],
    ),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: LLAMA_3_WORDS }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, use_regex: false },
      ],
    },
    decoder: { type: "ByteLevel" },
    post_processor: {
      type: "Sequence",
      processors: [
        { type: "ByteLevel" },
        {
          type: "TemplateProcessing",
          single: [{ SpecialToken: { id: "<|begin_of_text|>" } }, { Sequence: { id: "A" } }],
        },
      ],
    },
  });
}

/** Texts with the ids that Meta's own Llama 2 tokenizer gives them, as llama-tokenizer-js 1.2.2 records them. */
export const LLAMA_2_VECTORS: readonly (readonly [string, readonly number[]])[] = [
  ["grabbed", [2646, 1327, 287]],
  [" grabbed", [29871, 2646, 1327, 287]],
  ["           grabbed", [9651, 2646, 1327, 287]],
  ["\n", [29871, 13]],
  [" \n", [259, 13]],
  ["\ttabs\t\t\t\tout here", [29871, 12, 21175, 12, 12, 12, 12, 449, 1244]],
  ["ax\n####\nboo", [4853, 13, 4136, 13, 833, 29877]],
  ["镇", [29871, 30411]],
  ["🦙", [29871, 243, 162, 169, 156]],
  ["🦙Ꙋ", [29871, 243, 162, 169, 156, 237, 156, 141]],
  ["Ꙋ🦙", [29871, 237, 156, 141, 243, 162, 169, 156]],
];

/** The same for Llama 3, as llama3-tokenizer-js 1.2.0 records them. */
export const LLAMA_3_VECTORS: readonly (readonly [string, readonly number[]])[] = [
  ["grabbed", [59312, 2788]],
  [" grabbed", [30418]],
  ["           grabbed", [1881, 30418]],
  ["\n", [198]],
  [" \n", [720]],
  ["\ttabs\t\t\t\tout here", [3324, 3518, 573, 14294, 1618]],
  ["ax\n####\nboo", [710, 198, 71050, 34093]],
  ["镇", [104643]],
  ["🦙", [9468, 99, 247]],
  ["🦙Ꙋ", [9468, 99, 247, 166, 247, 232]],
  ["Ꙋ🦙", [166, 247, 232, 9468, 99, 247]],
  ["This is a test sentence.", [2028, 374, 264, 1296, 11914, 13]],
];

/** What the packages' own encoders say. */
export const encodeAsLlama2 = (text: string) => llama2.encode(text, false, true);
export const encodeAsLlama3 = (text: string) => llama3.encode(text, { bos: false, eos: false });
