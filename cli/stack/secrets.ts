import { randomBytes } from "node:crypto";
import * as z from "zod";
import { SECRET_LENGTH_MIN } from "../../src/protocol/secret-length.ts";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { CommandFailure } from "../command.ts";

const SECRET_BYTES = 32;
const SECRET_LENGTH_MAX = 512;
// Of characters that an env file carries without quoting.
const SECRET = new RegExp(`^[\\w.~+/=-]{${SECRET_LENGTH_MIN},${SECRET_LENGTH_MAX}}$`);
const POOL_SECRET = new RegExp(`^[\\w.~+/=-]{1,${SECRET_LENGTH_MAX}}$`);
const Secret = z.string().regex(SECRET);

/** The four secrets that gateway, engines and administrator share, under the Worker's own names. */
export const Secrets = z.object({
  SLUICE_KEY_PEPPER: Secret,
  SLUICE_CACHE_MASTER: Secret,
  SLUICE_ADMIN_KEY: Secret,
  SLUICE_REPLICA_SECRET: Secret,
});
export type Secrets = Readonly<z.infer<typeof Secrets>>;

/**
 * Takes each secret from the environment, or makes it anew where the environment has none: then
 * nobody but this run knows it. Throws `CommandFailure` for one that the Worker would refuse.
 */
export function provideSecrets(environment: Readonly<Record<string, string | undefined>>): Secrets {
  const provide = (name: keyof Secrets) => {
    const secret = environment[name] ?? randomBytes(SECRET_BYTES).toString("base64url");
    if (SECRET.test(secret)) return secret;
    throw new CommandFailure(
      `${name} in the environment: expected ${SECRET_LENGTH_MIN} to ${SECRET_LENGTH_MAX} letters, ` +
        `digits or any of . _ ~ + / = -, found ${secret.length} characters`,
    );
  };
  return {
    SLUICE_KEY_PEPPER: provide("SLUICE_KEY_PEPPER"),
    SLUICE_CACHE_MASTER: provide("SLUICE_CACHE_MASTER"),
    SLUICE_ADMIN_KEY: provide("SLUICE_ADMIN_KEY"),
    SLUICE_REPLICA_SECRET: provide("SLUICE_REPLICA_SECRET"),
  };
}

/**
 * Takes from the environment what a configuration's pools send to servers that are not ours. Throws
 * `CommandFailure` where one is not there: nobody else knows it.
 */
export function providePoolSecrets(
  { pools }: Pick<LiveConfiguration, "pools">,
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const entries = pools.flatMap(({ poolId, secretName }) => {
    if (secretName === undefined) return [];
    const secret = environment[secretName];
    if (secret !== undefined && POOL_SECRET.test(secret)) return [[secretName, secret] as const];
    const needed = `which pool "${poolId}" sends to its replicas`;
    if (secret === undefined || secret === "") {
      throw new CommandFailure(`Expected ${secretName} in the environment, ${needed}`);
    }
    throw new CommandFailure(
      `${secretName} in the environment, ${needed}: expected at most ${SECRET_LENGTH_MAX} letters, ` +
        `digits or any of . _ ~ + / = -, found ${secret.length} characters`,
    );
  });
  return Object.fromEntries(entries);
}

/** Lays variables out as an env file; their values must need no quoting, as secrets do not. */
export function toEnvFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
}
