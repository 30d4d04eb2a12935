import * as z from "zod";
import { readYamlAs } from "../read-yaml-as.ts";
import { VariableName } from "../server-flags.ts";
import { TokenRange } from "./token-range.ts";

const TENANTS_MAX = 1_000;

const MixTenant = z.strictObject({
  /** The environment variable with its key. */
  key_env: VariableName.optional(),
  class: z.string().min(1).max(64).optional(),
  weight: z.number().positive().default(1),
  burstiness: z.number().positive().optional(),
  prompt_tokens: TokenRange.optional(),
  output_tokens: TokenRange.optional(),
  goodput: z.string().optional(),
});

const MixFile = z.strictObject({
  tenants: z
    .record(z.string().min(1).max(64), MixTenant)
    .refine((tenants) => Object.keys(tenants).length > 0, "Expected at least one tenant")
    .refine(
      (tenants) => Object.keys(tenants).length <= TENANTS_MAX,
      `Expected at most ${TENANTS_MAX} tenants`,
    ),
});
export type MixTenant = z.output<typeof MixTenant>;

/** Reads the tenants of a load from a file. Throws a `CommandFailure` that names all that is wrong with it. */
export function readMix(file: string): ReadonlyMap<string, MixTenant> {
  return new Map(Object.entries(readYamlAs(file, MixFile).tenants));
}
