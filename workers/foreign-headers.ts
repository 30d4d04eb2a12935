import type { PlainServer } from "../src/replicas/replica-state.ts";
import type { LivePool } from "../src/tenants/live-configuration.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";
import type { Settings } from "./settings.ts";
import { transportFaultOf } from "./transport.ts";

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

/** What is wrong with a pool's secrets and its transport, for its operator; `undefined` where all is well. */
export function poolFaultOf(pool: LivePool | undefined, settings: Settings): string | undefined {
  const { secretName, transport } = pool ?? {};
  const found = secretName === undefined ? undefined : settings.poolSecretOf(secretName);
  if (found?.kind === "faulty") return `${secretName} ${found.reason}`;
  return transportFaultOf(transport, settings);
}
