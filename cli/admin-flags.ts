import * as z from "zod";
import type { AdminAccess } from "./admin-client.ts";
import { WrongUse } from "./command.ts";
import { FLAG_HELP, flagSwitch } from "./flags.ts";
import { requireSecret } from "./require-secret.ts";
import type { LocalRun } from "./run-file.ts";
import { findLocalRun } from "./run-file.ts";

const DEFAULT_URL = "http://127.0.0.1:8787";

/** The URL of a gateway as a flag gives it. */
export const gatewayUrlFlag = z
  .url({ protocol: /^https?$/, error: "Expected a URL such as https://gateway.example" })
  .transform((url) => url.replace(/\/+$/, ""))
  .optional()
  .register(FLAG_HELP, {
    valueName: "URL",
    meaning: `The gateway (with --local the one that runs, otherwise ${DEFAULT_URL})`,
  });

/** The flags of every command that asks a gateway's admin API. */
export const ADMIN_FLAGS = z.object({
  url: gatewayUrlFlag,
  local: flagSwitch(`Ask the gateway that "sluice up" runs in this folder`),
  json: flagSwitch("Print the result as one JSON object"),
});

/** What stands below the flags of such a command. */
export const ADMIN_ENVIRONMENT = `Environment, which wins over what --local finds:
  SLUICE_ADMIN_KEY    The gateway's admin key, or an API key with scope admin`;

/** A gateway to ask, and the run on this machine that it belongs to, if it is one. */
export interface FoundGateway {
  readonly access: AdminAccess;
  readonly run: LocalRun | undefined;
}

/** Finds the gateway that the flags mean, and the key to it. `names`: the secrets that are needed of it. */
export function findGateway(
  flags: { readonly url?: string | undefined; readonly local: boolean },
  names: readonly string[] = ["SLUICE_ADMIN_KEY"],
): FoundGateway {
  const run = flags.local ? findRunAt(flags.url, names) : undefined;
  const gatewayUrl = flags.url ?? run?.url ?? DEFAULT_URL;
  return { access: { gatewayUrl, adminKey: requireSecret("SLUICE_ADMIN_KEY", run) }, run };
}

/** The secrets of a run are for its own gateway, not for whatever else listens at `url`. */
function findRunAt(url: string | undefined, names: readonly string[]): LocalRun | undefined {
  const run = findLocalRun(process.cwd());
  if (run === undefined || url === undefined || url === run.url) return run;
  if (names.every((name) => process.env[name])) return undefined;
  throw new WrongUse(
    `The gateway that runs in this folder is at ${run.url}, not at ${url}: leave --url out, or set ` +
      `${names.join(" and ")} of the other one in the environment`,
  );
}
