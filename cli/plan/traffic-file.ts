import * as z from "zod";
import type { LengthTable } from "../../simulator/workloads/length-table.ts";
import { QUANTILE_LEVELS } from "../../simulator/workloads/length-table.ts";
import {
  ARXIV_SUMMARIES,
  AZURE_CODE,
  AZURE_CONVERSATION,
  BOOK_TRANSLATION,
  MOONCAKE_CONVERSATION,
  SHAREGPT,
} from "../../simulator/workloads/lengths.ts";
import { TokenRange } from "../bench/token-range.ts";
import { readYamlAs } from "../read-yaml-as.ts";

/** Lengths of real requests, by the names that a file gives them. */
export const LENGTHS: Readonly<Record<string, LengthTable>> = {
  chat: AZURE_CONVERSATION,
  code: AZURE_CODE,
  sharegpt: SHAREGPT,
  rag: ARXIV_SUMMARIES,
  agent: MOONCAKE_CONVERSATION,
  translation: BOOK_TRANSLATION,
};

const RATE_MAX = 100_000;

const TenantTraffic = z
  .strictObject({
    /** Requests a second. */
    rate: z.number().positive().max(RATE_MAX),
    lengths: z.enum(Object.keys(LENGTHS)).optional(),
    prompt_tokens: TokenRange.optional(),
    output_tokens: TokenRange.optional(),
    /** The shape of Gamma-distributed gaps; 1 is Poisson. */
    burstiness: z.number().positive().max(100).default(1),
    /** How much of a prompt is a beginning that others share, and how many such there are. */
    shared_prompt: z.number().min(0).max(0.95).default(0),
    shared_prompts: z.int().min(1).max(10_000).default(10),
  })
  .refine(
    ({ lengths, prompt_tokens: prompt, output_tokens: output }) =>
      lengths === undefined
        ? prompt !== undefined && output !== undefined
        : prompt === undefined && output === undefined,
    "Expected either lengths, or prompt_tokens and output_tokens",
  );
export type TenantTraffic = z.output<typeof TenantTraffic>;

const TrafficFile = z.strictObject({
  tenants: z
    .record(z.string().min(1), TenantTraffic)
    .refine(
      (tenants) => Object.keys(tenants).length > 0,
      "Expected the traffic of a tenant or more",
    ),
});

/** Reads what tenants are expected to ask for. Throws a `CommandFailure` that names all that is wrong. */
export function readTraffic(file: string): ReadonlyMap<string, TenantTraffic> {
  return new Map(Object.entries(readYamlAs(file, TrafficFile).tenants));
}

/** The lengths of a tenant's requests as a distribution. */
export function lengthTableOf(traffic: TenantTraffic): LengthTable {
  const named = LENGTHS[traffic.lengths ?? ""];
  if (named !== undefined) return named;
  return {
    promptTokens: spread(traffic.prompt_tokens ?? { min: 1, max: 1 }),
    outputTokensByPrompt: [spread(traffic.output_tokens ?? { min: 1, max: 1 })],
  };
}

function spread({ min, max }: TokenRange): number[] {
  return QUANTILE_LEVELS.map((level) => min + (max - min) * level);
}
