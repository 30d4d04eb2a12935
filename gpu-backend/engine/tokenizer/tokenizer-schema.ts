import * as z from "zod";

/** Above every vocabulary; tables are as long as the largest id. */
const IDS_MAX = 1 << 20;

/** A token that is matched in text as a whole, ahead of the merges. */
export const AddedToken = z.looseObject({
  id: z.int().min(0).lt(IDS_MAX),
  content: z.string().min(1),
  special: z.boolean().default(false),
  /** Whether the token swallows white space before it. */
  lstrip: z.boolean().default(false),
  /** Whether the token swallows white space behind it. */
  rstrip: z.boolean().default(false),
});
export type AddedToken = z.infer<typeof AddedToken>;

/** The vocabulary is passed on as it is: a copy through zod would lose the token `__proto__`. */
const Vocabulary = z.custom<Readonly<Record<string, number>>>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0 && id < IDS_MAX),
  "Expected an object of token ids",
);

const NoAffix = only(z.literal("").nullish(), "no affix of words").optional();

export const Bpe = z.looseObject({
  type: only(z.literal("BPE"), 'the model "BPE"'),
  vocab: Vocabulary,
  merges: z.array(z.union([z.string(), z.tuple([z.string(), z.string()])])),
  continuing_subword_prefix: NoAffix,
  end_of_word_suffix: NoAffix,
});
/** Two tokens that become one, as a pair or, in older files, joined by a space. */
export type BpeMerge = z.infer<typeof Bpe>["merges"][number];

/** A schema whose fault names what is supported and what the file has instead. */
export function only<Schema extends z.ZodType>(schema: Schema, supported: string) {
  return z.unknown().transform((value, context): z.output<Schema> => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const found = JSON.stringify(value)?.slice(0, 200) ?? "nothing";
    context.issues.push({
      code: "custom",
      input: value,
      message: `Only ${supported} is supported, found ${found}`,
    });
    return z.NEVER;
  });
}
