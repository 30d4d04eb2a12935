import * as z from "zod";

/**
 * How rotary positions are stretched beyond what a model was first trained on. All of these are a
 * frequency for each pair of dimensions and one factor, whatever the length of a sequence: KV that is
 * computed once stays good, so prefixes can be shared.
 */
export type RopeScaling =
  | { readonly kind: "default" }
  | { readonly kind: "linear"; readonly factor: number }
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContextTokens: number;
    }
  | {
      readonly kind: "yarn";
      readonly factor: number;
      readonly originalContextTokens: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** What cosines and sines are multiplied with. */
      readonly attentionFactor: number;
      /** Whether the bounds of the ramp are whole dimensions. */
      readonly truncates: boolean;
    };

const Factor = z.number().min(1).max(10_000);
const Positive = z.number().positive().max(10_000);
const Tokens = z
  .int()
  .min(1)
  .max(1 << 24);

/** `rope_scaling` of config.json; the kind has two names. Older files say "type". */
export const RopeScalingJson = z.looseObject({
  rope_type: z.string().max(64).optional(),
  type: z.string().max(64).optional(),
  rope_theta: z.number().positive().optional(),
  partial_rotary_factor: z.number().optional(),
});

const Linear = z.looseObject({ factor: Factor });
const Dynamic = z.looseObject({ factor: Factor });
const Llama3 = z.looseObject({
  factor: Factor,
  low_freq_factor: Positive,
  high_freq_factor: Positive,
  original_max_position_embeddings: Tokens,
});
const Yarn = z.looseObject({
  factor: Factor,
  original_max_position_embeddings: Tokens.nullish(),
  beta_fast: Positive.nullish(),
  beta_slow: Positive.nullish(),
  attention_factor: Positive.nullish(),
  mscale: Positive.nullish(),
  mscale_all_dim: Positive.nullish(),
  truncate: z.boolean().nullish(),
});

const BETA_FAST_DEFAULT = 32;
const BETA_SLOW_DEFAULT = 1;

/** What a rope_scaling comes to, with the context that it gives the model. */
export type ReadRopeScaling =
  | { readonly kind: "read"; readonly scaling: RopeScaling; readonly contextTokens: number }
  | { readonly kind: "unsupported"; readonly name: string }
  | { readonly kind: "invalid"; readonly error: z.ZodError };

/**
 * Reads `rope_scaling` for a model of `contextTokens` positions.
 *
 * "dynamic" changes its frequencies with the length of each sequence once that is beyond
 * `contextTokens`, and with them KV that was computed before; up to there it is the default. So it is
 * taken for that, and the context is not stretched.
 */
export function readRopeScaling(
  json: z.infer<typeof RopeScalingJson> | null | undefined,
  contextTokens: number,
): ReadRopeScaling {
  const name = json?.rope_type ?? json?.type ?? "default";
  switch (name) {
    case "default":
      return { kind: "read", scaling: { kind: "default" }, contextTokens };
    case "dynamic": {
      const parsed = Dynamic.safeParse(json);
      if (!parsed.success) return { kind: "invalid", error: parsed.error };
      return { kind: "read", scaling: { kind: "default" }, contextTokens };
    }
    case "linear": {
      const parsed = Linear.safeParse(json);
      if (!parsed.success) return { kind: "invalid", error: parsed.error };
      const { factor } = parsed.data;
      return { kind: "read", scaling: { kind: "linear", factor }, contextTokens };
    }
    case "llama3": {
      const parsed = Llama3.safeParse(json);
      if (!parsed.success) return { kind: "invalid", error: parsed.error };
      return { kind: "read", scaling: toLlama3(parsed.data), contextTokens };
    }
    case "yarn": {
      const parsed = Yarn.safeParse(json);
      if (!parsed.success) return { kind: "invalid", error: parsed.error };
      const scaling = toYarn(parsed.data, contextTokens);
      const stretched = Math.floor(scaling.originalContextTokens * scaling.factor);
      return { kind: "read", scaling, contextTokens: Math.max(contextTokens, stretched) };
    }
    default:
      return { kind: "unsupported", name };
  }
}

function toLlama3(json: z.infer<typeof Llama3>): RopeScaling {
  return {
    kind: "llama3",
    factor: json.factor,
    lowFrequencyFactor: json.low_freq_factor,
    highFrequencyFactor: json.high_freq_factor,
    originalContextTokens: json.original_max_position_embeddings,
  };
}

function toYarn(json: z.infer<typeof Yarn>, contextTokens: number) {
  const { factor, mscale, mscale_all_dim: mscaleAll } = json;
  const implied =
    mscale && mscaleAll
      ? magnitude(factor, mscale) / magnitude(factor, mscaleAll)
      : magnitude(factor, 1);
  return {
    kind: "yarn",
    factor,
    originalContextTokens: json.original_max_position_embeddings ?? contextTokens,
    betaFast: json.beta_fast ?? BETA_FAST_DEFAULT,
    betaSlow: json.beta_slow ?? BETA_SLOW_DEFAULT,
    attentionFactor: json.attention_factor ?? implied,
    truncates: json.truncate ?? true,
  } as const;
}

/** YaRN's temperature of the softmax, section 3.4 of the paper. */
function magnitude(factor: number, scale: number): number {
  return factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1;
}
