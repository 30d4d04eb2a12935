import { readFileSync } from "node:fs";
import { join } from "node:path";

const MODELS = join(import.meta.dirname, "../../../../gpu-backend/models");

/** The folder of the bundled model. */
export const BUNDLED_MODEL = join(MODELS, "sluice-tiny");

interface GoldenPrompt {
  readonly name: string;
  readonly messages: { readonly role: "system" | "user" | "assistant"; readonly content: string }[];
  readonly prompt_ids: readonly number[];
  readonly greedy: readonly number[];
  /** Where the answer ended; null where the recorded tokens stop before. */
  readonly greedy_stop: number | null;
  readonly text: string;
}

interface TokenCase {
  readonly text: string;
  readonly ids: readonly number[];
}

interface TokenizerJson {
  model: {
    type: string;
    vocab: Record<string, number>;
    merges: ([string, string] | string)[];
    ignore_merges: boolean;
    end_of_word_suffix: string | null;
  };
  decoder: { type: string } | null;
  normalizer: { type: string } | null;
  pre_tokenizer: unknown;
  added_tokens: {
    id: number;
    content: string;
    special?: boolean;
    lstrip?: boolean;
    rstrip?: boolean;
  }[];
}

const read = (path: string) => readFileSync(join(MODELS, path), "utf8");

/** Prompts and answers of the bundled model, with the ids that its trainer's own code gave them. */
export function goldenPrompts(): readonly GoldenPrompt[] {
  const golden: { models: { "sluice-tiny": { prompts: GoldenPrompt[] } } } = JSON.parse(
    read("golden.json"),
  );
  return golden.models["sluice-tiny"].prompts;
}

/** Texts with the ids that the trainer's own tokenizer gave them. */
export function tokenCases(): readonly TokenCase[] {
  const cases: TokenCase[] = JSON.parse(read("train/tokcases.json"));
  return cases;
}

/** A fresh copy of the bundled model's `tokenizer.json`, to be altered. */
export function bundledTokenizerJson(): TokenizerJson {
  const file: TokenizerJson = JSON.parse(read("sluice-tiny/tokenizer.json"));
  return file;
}
