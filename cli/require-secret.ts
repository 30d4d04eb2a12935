import { WrongUse } from "./command.ts";
import type { LocalRun } from "./run-file.ts";
import type { Secrets } from "./stack/secrets.ts";

/**
 * Takes a secret of the gateway from the environment or, where that has none, from a run on this
 * machine. Throws `WrongUse` that tells both ways if neither has it.
 */
export function requireSecret(name: keyof Secrets, run: LocalRun | undefined): string {
  const given = process.env[name] ?? "";
  if (given !== "") return given;
  if (run !== undefined) return run.secrets[name];
  throw new WrongUse(
    `Expected ${name} in the environment, or --local in the folder where "sluice up" runs`,
  );
}
