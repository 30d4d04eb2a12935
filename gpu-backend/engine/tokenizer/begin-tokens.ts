import * as z from "zod";

/** Who adds what begins a text: a template of special tokens, alone or among others. */
const PostProcessor = z.looseObject({
  type: z.string(),
  single: z.array(z.unknown()).max(64).optional(),
  processors: z
    .array(z.looseObject({ single: z.array(z.unknown()).max(64).optional() }))
    .optional(),
});
const SpecialTokenStep = z.looseObject({ SpecialToken: z.looseObject({ id: z.string() }) });

/**
 * The special tokens that `tokenizer.json` puts before a text; undefined where it says nothing of it.
 */
export function beginTokensOf(file: Readonly<Record<string, unknown>>): string[] | undefined {
  const parsed = PostProcessor.safeParse(file["post_processor"]);
  if (!parsed.success) return undefined;
  const { single, processors = [] } = parsed.data;
  const steps = [{ single }, ...processors].find((each) => each.single !== undefined)?.single;
  if (steps === undefined) return undefined;
  const tokens: string[] = [];
  for (const step of steps) {
    const special = SpecialTokenStep.safeParse(step);
    if (!special.success) break;
    tokens.push(special.data.SpecialToken.id);
  }
  return tokens;
}
