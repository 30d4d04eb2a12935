import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { BUNDLED_MODEL } from "../../gpu-backend/settings.ts";

/** Puts the tokenizer of the bundled model, of 4096 tokens, and its chat template beside other weights. */
export function copyBundledTokenizer(directory: string): void {
  mkdirSync(directory, { recursive: true });
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    copyFileSync(join(BUNDLED_MODEL, name), join(directory, name));
  }
}
