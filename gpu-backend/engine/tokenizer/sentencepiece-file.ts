import * as z from "zod";
import { AddedToken, Bpe, only } from "./tokenizer-schema.ts";

/** What SentencePiece writes for a space. */
export const SPACE_MARK = "▁";

const Mark = z.literal(SPACE_MARK);
const ReplaceSpace = z.looseObject({
  type: z.literal("Replace"),
  pattern: z.looseObject({ String: z.literal(" ") }),
  content: Mark,
});
const PrependMark = z.looseObject({ type: z.literal("Prepend"), prepend: Mark });

const Normalizer = only(
  z
    .union([
      ReplaceSpace,
      z.looseObject({
        type: z.literal("Sequence"),
        normalizers: z.union([
          z.tuple([PrependMark, ReplaceSpace]),
          z.tuple([ReplaceSpace]),
          z.tuple([]),
        ]),
      }),
    ])
    .nullish(),
  `a normalizer that writes "${SPACE_MARK}" for spaces`,
);

const Metaspace = z.looseObject({
  type: z.literal("Metaspace"),
  replacement: Mark.default(SPACE_MARK),
  prepend_scheme: z.literal(["always", "first", "never"]).default("always"),
  split: z.boolean().default(true),
});
/** Spaces are gone before this could find one. */
const SplitAtSpaces = z.looseObject({
  type: z.literal("Split"),
  pattern: z.looseObject({ String: z.literal(" ") }),
});

const PreTokenizer = only(
  z.union([Metaspace, SplitAtSpaces]).nullish(),
  'the pre-tokenizer "Metaspace", or none',
);

const DECODERS = ["Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"] as const;
const Decoder = only(
  z.union([
    z.looseObject({ type: z.literal("Metaspace") }),
    z.looseObject({
      type: z.literal("Sequence"),
      decoders: z.array(z.looseObject({ type: z.literal(DECODERS) })).max(8),
    }),
  ]),
  `a decoder that writes spaces for "${SPACE_MARK}"`,
);

/**
 * `tokenizer.json` of a tokenizer that was SentencePiece's: BPE over characters, where a space is a mark
 * and what no token holds is written in bytes, so that every text can be encoded.
 */
export const SentencePieceFile = z.looseObject({
  model: Bpe.extend({ byte_fallback: z.literal(true) }),
  decoder: Decoder,
  normalizer: Normalizer.optional(),
  pre_tokenizer: PreTokenizer.optional(),
  added_tokens: z.array(AddedToken).default([]),
});
export type SentencePieceFile = z.infer<typeof SentencePieceFile>;

/** How a text begins: with a space of its own, unless it goes on behind a special token, or never. */
export type SpaceScheme = "always" | "first" | "never";

/** What stands for the first word of a text: SentencePiece writes a space before it. */
export function spaceSchemeOf({ normalizer, pre_tokenizer }: SentencePieceFile): SpaceScheme {
  if (pre_tokenizer?.type === "Metaspace") return pre_tokenizer.prepend_scheme;
  const steps = normalizer?.type === "Sequence" ? normalizer.normalizers : [];
  return steps.some(({ type }) => type === "Prepend") ? "always" : "never";
}

/** Whether the decoder takes the first space of a text away again. */
export function dropsFirstSpace(file: SentencePieceFile): boolean {
  const { decoder } = file;
  if (decoder.type === "Metaspace") return spaceSchemeOf(file) !== "never";
  return decoder.decoders.some(({ type }) => type === "Strip");
}
