import { readFileSync } from "node:fs";
import { parse } from "yaml";
import * as z from "zod";
import { CommandFailure, messageOf } from "../command.ts";
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
  let document: unknown;
  try {
    document = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
  const mix = MixFile.safeParse(document);
  if (mix.success) return new Map(Object.entries(mix.data.tenants));
  const faults = mix.error.issues.map(
    ({ path, message }) => `${file}: ${path.join(".")}: ${message}`,
  );
  throw new CommandFailure(faults.join("\n"));
}
