import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import * as z from "zod";
import { SECRET_LENGTH_MIN } from "../../src/protocol/secret-length.ts";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { CommandFailure, messageOf } from "../command.ts";

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

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Takes each secret from the environment, or from the file that it names as `…_FILE`, or makes it anew where the
 * environment has none: then nobody but this run knows it. Throws `CommandFailure` that names all which the Worker
 * would refuse for their form.
 */
export function provideSecrets(environment: Environment): Secrets {
  const faults: string[] = [];
  const provide = (name: keyof Secrets) => {
    const secret =
      givenSecret(name, environment) ?? randomBytes(SECRET_BYTES).toString("base64url");
    if (!SECRET.test(secret)) {
      faults.push(
        `${name} in the environment: expected ${SECRET_LENGTH_MIN} to ${SECRET_LENGTH_MAX} letters, ` +
          `digits or any of . _ ~ + / = -, found ${secret.length} characters`,
      );
    }
    return secret;
  };
  const secrets = {
    SLUICE_KEY_PEPPER: provide("SLUICE_KEY_PEPPER"),
    SLUICE_CACHE_MASTER: provide("SLUICE_CACHE_MASTER"),
    SLUICE_ADMIN_KEY: provide("SLUICE_ADMIN_KEY"),
    SLUICE_REPLICA_SECRET: provide("SLUICE_REPLICA_SECRET"),
  };
  if (faults.length > 0) throw new CommandFailure(faults.join("\n"));
  return secrets;
}

/**
 * Takes from the environment what a configuration's pools send to servers that are not ours. Throws
 * `CommandFailure` where one is not there: nobody else knows it.
 */
export function providePoolSecrets(
  { pools }: Pick<LiveConfiguration, "pools">,
  environment: Environment,
): Readonly<Record<string, string>> {
  const wanted = pools.flatMap(({ poolId, secretName, transport }) => {
    const { idName, secretName: accessName } = transport?.access ?? {};
    const names = [secretName, idName, accessName].filter((name) => name !== undefined);
    return names.map((name) => ({ poolId, secretName: name }));
  });
  const entries = wanted.flatMap(({ poolId, secretName }) => {
    const secret = givenSecret(secretName, environment);
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

/** A secret itself, or what is in the file that is named instead, without the line's end. */
function givenSecret(name: string, environment: Environment): string | undefined {
  const fileName = `${name}_FILE`;
  const [secret, file] = [environment[name], environment[fileName]];
  if (file === undefined || file === "") return secret;
  if (secret !== undefined) {
    throw new CommandFailure(
      `Expected either ${name} or ${fileName} in the environment, found both`,
    );
  }
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    throw new CommandFailure(`Cannot read ${fileName}: ${messageOf(error)}`);
  }
}

/** Lays variables out as an env file; their values must need no quoting, as secrets do not. */
export function toEnvFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
}
