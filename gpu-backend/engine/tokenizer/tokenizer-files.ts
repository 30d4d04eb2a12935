import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../message-of.ts";

/** A token that is matched in text as a whole, ahead of the merges. */
const AddedToken = z.looseObject({
  id: z.int().min(0),
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
    Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0),
  "Expected an object of token ids",
);

const NoAffix = only(z.literal("").nullish(), "no affix of words");

const Bpe = z.looseObject({
  type: only(z.literal("BPE"), 'the model "BPE"'),
  vocab: Vocabulary,
  merges: z.array(z.union([z.string(), z.tuple([z.string(), z.string()])])),
  continuing_subword_prefix: NoAffix,
  end_of_word_suffix: NoAffix,
});
/** Two tokens that become one, as a pair or, in older files, joined by a space. */
export type BpeMerge = z.infer<typeof Bpe>["merges"][number];

const Splitter = z.union([
  z.looseObject({ type: z.literal(["ByteLevel", "Digits"]) }),
  z.looseObject({
    type: z.literal("Split"),
    behavior: z.literal("Isolated"),
    invert: z.literal(false),
  }),
]);

/** Only splitters that keep every byte: `fewestTokens` counts on it. */
const PreTokenizer = only(
  z.union([
    Splitter,
    z.looseObject({ type: z.literal("Sequence"), pretokenizers: z.array(Splitter) }),
  ]),
  'a pre-tokenizer of "ByteLevel", "Digits" and "Split" (isolated, not inverted)',
);

/**
 * The part of `tokenizer.json` that decides whether we can serve it: byte-level BPE, where every
 * text can be encoded and every token is a string of bytes.
 */
export const TokenizerFile = z.looseObject({
  model: Bpe,
  decoder: only(z.looseObject({ type: z.literal("ByteLevel") }), 'the decoder "ByteLevel"'),
  normalizer: only(z.looseObject({ type: z.literal("NFC") }).nullable(), 'the normalizer "NFC"'),
  pre_tokenizer: PreTokenizer,
  added_tokens: z.array(AddedToken).default([]),
});
export type TokenizerFile = z.infer<typeof TokenizerFile>;

/** A schema whose fault names what is supported and what the file has instead. */
function only<Schema extends z.ZodType>(schema: Schema, supported: string) {
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

/** A token's text, or the object that also says how it is matched. */
const NamedToken = z
  .union([z.string(), z.looseObject({ content: z.string() })])
  .nullish()
  .transform((token) => (typeof token === "object" ? token?.content : token) ?? undefined);

const TokenizerConfig = z.looseObject({
  bos_token: NamedToken,
  eos_token: NamedToken,
  pad_token: NamedToken,
  unk_token: NamedToken,
  chat_template: z
    .union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))])
    .exactOptional(),
});
type TokenizerConfig = z.infer<typeof TokenizerConfig>;

/** What `chat_template` of a model's folder says, with the tokens that its text may name. */
export interface ChatTemplateSource {
  readonly template: string;
  readonly tokens: Readonly<Record<"bos_token" | "eos_token" | "pad_token" | "unk_token", string>>;
}

/** Reads `tokenizer.json`; throws with the file's path and each thing that is wrong with it. */
export function readTokenizerFile(folder: string): Promise<TokenizerFile> {
  return readJson(join(folder, "tokenizer.json"), TokenizerFile);
}

/**
 * Reads the chat template from `chat_template.jinja` or else `tokenizer_config.json`; throws with
 * the path if there is none.
 */
export async function readChatTemplateSource(folder: string): Promise<ChatTemplateSource> {
  const configPath = join(folder, "tokenizer_config.json");
  const config = await readJson(configPath, TokenizerConfig);
  const template = (await readJinja(folder)) ?? defaultTemplate(config);
  if (template === undefined) throw new Error(`${configPath} has no chat_template`);
  return {
    template,
    tokens: {
      bos_token: config.bos_token ?? "",
      eos_token: config.eos_token ?? "",
      pad_token: config.pad_token ?? "",
      unk_token: config.unk_token ?? "",
    },
  };
}

function defaultTemplate({ chat_template: templates }: TokenizerConfig): string | undefined {
  if (!Array.isArray(templates)) return templates;
  return templates.find(({ name }) => name === "default")?.template;
}

async function readJinja(folder: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, "chat_template.jinja"), "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function readJson<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): Promise<z.output<Schema>> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    const reason = messageOf(cause);
    throw new Error(`Cannot read ${path}: ${reason}`, { cause });
  }
  const parsed = schema.safeParse(content);
  if (parsed.success) return parsed.data;
  throw new Error(`Cannot use ${path}:\n${z.prettifyError(parsed.error)}`);
}
