import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";

/** Where the bundled models lie. */
export const MODELS = join(import.meta.dirname, "../../../../gpu-backend/models");

const Prompt = z.object({
  name: z.string(),
  prompt_ids: z.array(z.int()),
  /** Token id and logit of the ten best after the prompt. */
  top10: z.array(z.tuple([z.int(), z.number()])),
  /** Sum of all logits after the prompt. */
  logit_sum: z.number(),
  greedy: z.array(z.int()),
  /** Between the two best logits at each greedy step. */
  gaps: z.array(z.number()),
});
export type GoldenPrompt = z.infer<typeof Prompt>;

const Golden = z.object({
  models: z.record(
    z.string(),
    z.object({
      prompts: z.array(Prompt),
      validation: z.object({ tokens_scored: z.int(), perplexity: z.number() }),
    }),
  ),
});

/** What PyTorch computes in f32 from the same weights; golden.json says how it was made. */
export const GOLDEN = Golden.parse(JSON.parse(readFileSync(join(MODELS, "golden.json"), "utf8")));

/** The documents of the validation text: each begins with token 0. */
export function validationDocuments(): number[][] {
  const bytes = readFileSync(join(MODELS, "validation.bin"));
  const documents: number[][] = [];
  for (let offset = 0; offset < bytes.length; offset += 2) {
    const token = bytes.readUInt16LE(offset);
    if (token === 0) documents.push([]);
    documents.at(-1)?.push(token);
  }
  return documents;
}
