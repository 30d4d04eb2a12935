import type { PlainServer } from "../src/replicas/replica-state.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";
import type { Settings } from "./settings.ts";

/**
 * Returns what a server that is not ours is sent beside the usual: its own secret, if it has one. Throws
 * `not_configured` where the Worker does not have it; which one that is, only the log says.
 */
export function foreignHeaders(
  { secretName }: PlainServer,
  { poolSecretOf }: Settings,
): Record<string, string> {
  if (secretName === undefined) return {};
  const found = poolSecretOf(secretName);
  if (found.kind === "known") return { authorization: `Bearer ${found.secret}` };
  logLine("error", "pool-secret", { secretName, details: found.reason });
  throw new GatewayError({
    code: "not_configured",
    message: "The gateway has no valid credential for the servers of this model",
  });
}

/** What is wrong with a pool's secret, for its operator; `undefined` where it is well, or there is none. */
export function secretFaultOf(
  secretName: string | undefined,
  { poolSecretOf }: Settings,
): string | undefined {
  const found = secretName === undefined ? undefined : poolSecretOf(secretName);
  return found?.kind === "known" || found === undefined
    ? undefined
    : `${secretName} ${found.reason}`;
}
