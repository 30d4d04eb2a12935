import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../message-of.ts";
import { patternFault } from "./pattern-fault.ts";
import { SentencePieceFile } from "./sentencepiece-file.ts";
import { AddedToken, Bpe, only } from "./tokenizer-schema.ts";

const Regex = z.looseObject({ Regex: z.string().min(1) });
const Pattern = z.union([z.looseObject({ String: z.string().min(1) }), Regex]);

const Splitter = z.union([
  z.looseObject({ type: z.literal(["ByteLevel", "Digits"]) }),
  z.looseObject({
    type: z.literal("Split"),
    behavior: z.literal("Isolated"),
    invert: z.literal(false),
    // Without one the library keeps nothing of a text.
    pattern: Pattern,
  }),
]);

/** Only splitters that keep every byte: `fewestTokens` counts on it. */
const PreTokenizer = only(
  z.union([
    Splitter,
    z.looseObject({ type: z.literal("Sequence"), pretokenizers: z.array(Splitter) }),
  ]),
  'a pre-tokenizer of "ByteLevel", "Digits" and "Split" (isolated, not inverted, by a pattern)',
).superRefine((found, context) => {
  for (const { pattern } of found.type === "Sequence" ? found.pretokenizers : [found]) {
    const regex = Regex.safeParse(pattern).data?.Regex ?? "";
    const fault = patternFault(regex);
    if (fault === undefined) continue;
    const shown = JSON.stringify(regex).slice(0, 200);
    const message = `Only patterns whose work is bounded are supported, found ${fault} in ${shown}`;
    context.addIssue({ code: "custom", message });
  }
});

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

/** Either kind of tokenizer. */
export type AnyTokenizerFile = TokenizerFile | SentencePieceFile;

const ByteFallback = z.looseObject({ model: z.looseObject({ byte_fallback: z.literal(true) }) });

/** Reads `tokenizer.json`; throws with the file's path and each thing that is wrong with it. */
export async function readTokenizerFile(folder: string): Promise<AnyTokenizerFile> {
  const path = join(folder, "tokenizer.json");
  const content = await readContent(path, TOKENIZER_BYTES_MAX);
  return ByteFallback.safeParse(content).success
    ? parseContent(path, content, SentencePieceFile)
    : parseContent(path, content, TokenizerFile);
}

/** Whether a tokenizer was SentencePiece's. */
export function isSentencePiece(file: AnyTokenizerFile): file is SentencePieceFile {
  return file.model["byte_fallback"] === true;
}

/**
 * Reads the chat template from `chat_template.jinja` or else `tokenizer_config.json`; undefined for a model
 * that has none, since it was never taught to chat.
 */
export async function readChatTemplateSource(
  folder: string,
): Promise<ChatTemplateSource | undefined> {
  const configPath = join(folder, "tokenizer_config.json");
  const config = await readJson(configPath, TokenizerConfig);
  const template = (await readJinja(folder)) ?? defaultTemplate(config);
  if (template === undefined) return undefined;
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
  const path = join(folder, "chat_template.jinja");
  return existsSync(path) ? readText(path, TEMPLATE_BYTES_MAX) : undefined;
}

/** The largest vocabularies take a quarter of this. */
const TOKENIZER_BYTES_MAX = 128 << 20;
const CONFIG_BYTES_MAX = 16 << 20;
/** The longest templates that models come with take a tenth of this. */
const TEMPLATE_BYTES_MAX = 1 << 20;

async function readJson<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): Promise<z.output<Schema>> {
  return parseContent(path, await readContent(path, CONFIG_BYTES_MAX), schema);
}

async function readContent(path: string, bytesMax: number): Promise<unknown> {
  const text = await readText(path, bytesMax);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

async function readText(path: string, bytesMax: number): Promise<string> {
  try {
    const stats = await stat(path);
    if (stats.isFile() && stats.size <= bytesMax) return await readFile(path, "utf8");
    throw new Error(`expected a file of at most ${bytesMax} bytes, found ${stats.size}`);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(path: string, cause: unknown): Error {
  return new Error(`Cannot read ${path}: ${messageOf(cause)}`, { cause });
}

function parseContent<Schema extends z.ZodType>(
  path: string,
  content: unknown,
  schema: Schema,
): z.output<Schema> {
  const parsed = schema.safeParse(content);
  if (parsed.success) return parsed.data;
  throw new Error(`Cannot use ${path}:\n${z.prettifyError(parsed.error)}`);
}
