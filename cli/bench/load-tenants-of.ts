import { tokenIn } from "../server-flags.ts";
import type { BenchFlags } from "./bench-flags.ts";
import type { Goals } from "./goals.ts";
import { parseGoals } from "./goals.ts";
import type { LoadTenant } from "./load-tenant.ts";
import type { MixTenant } from "./mix-file.ts";
import { readMix } from "./mix-file.ts";
import { PRESETS } from "./presets.ts";

/** Gaps of this shape are those of a Poisson process. */
export const POISSON = 1;
const PROMPT_TOKENS = { min: 200, max: 200 };
const OUTPUT_TOKENS = { min: 64, max: 64 };

/** Works out who asks: the tenants of a mix, whatever they leave out being as the flags have it. */
export function loadTenantsOf(
  flags: BenchFlags,
  environment: Readonly<Record<string, string | undefined>>,
): LoadTenant[] {
  const goals = flags.goodput === undefined ? undefined : parseGoals(flags.goodput);
  const mix: ReadonlyMap<string, MixTenant> =
    flags.mix === undefined ? new Map([["default", { weight: 1 }]]) : readMix(flags.mix);
  return [...mix].map(([name, own]) => toTenant(name, own, { flags, goals, environment }));
}

function toTenant(
  name: string,
  own: MixTenant,
  from: {
    readonly flags: BenchFlags;
    readonly goals: Goals | undefined;
    readonly environment: Readonly<Record<string, string | undefined>>;
  },
): LoadTenant {
  const { flags, environment } = from;
  const preset = PRESETS[flags.preset ?? ""] ?? {};
  const ownGoals = own.goodput === undefined ? undefined : parseGoals(own.goodput);
  return {
    name,
    token: tokenIn(own.key_env ?? flags["token-env"], environment),
    className: own.class,
    weight: own.weight,
    burstiness: own.burstiness ?? flags.burstiness ?? POISSON,
    promptTokens:
      own.prompt_tokens ?? flags["prompt-tokens"] ?? preset.promptTokens ?? PROMPT_TOKENS,
    outputTokens:
      own.output_tokens ?? flags["output-tokens"] ?? preset.outputTokens ?? OUTPUT_TOKENS,
    goals: ownGoals ?? from.goals ?? preset.goals ?? {},
  };
}
