import type { PlainServer } from "../src/replicas/replica-state.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";
import type { Settings } from "./settings.ts";

// A header carries nothing else, and a blank in it is a slip of whoever set the secret.
const SECRET = /^[\x21-\x7e]{1,4096}$/;

/**
 * Returns what a server that is not ours is sent beside the usual: its own secret, if it has one. Throws
 * `not_configured` where the Worker does not have it; which one that is, only the log says.
 */
export function foreignHeaders(
  { secretName }: PlainServer,
  { poolSecretOf }: Settings,
): Record<string, string> {
  if (secretName === undefined) return {};
  const secret = validSecret(secretName, poolSecretOf);
  if (secret !== undefined) return { authorization: `Bearer ${secret}` };
  const details =
    poolSecretOf(secretName) === undefined
      ? "is missing"
      : "must be printable ASCII without spaces";
  logLine("error", "pool-secret", { secretName, details });
  throw new GatewayError({
    code: "not_configured",
    message: "The gateway has no valid credential for the servers of this model",
  });
}

/** The secret of a name, if the Worker has one that a header can carry. */
export function validSecret(
  secretName: string,
  poolSecretOf: Settings["poolSecretOf"],
): string | undefined {
  const secret = poolSecretOf(secretName);
  return typeof secret === "string" && SECRET.test(secret) ? secret : undefined;
}
