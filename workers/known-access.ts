import { AccessCache } from "../src/tenants/access-cache.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { DirectoryObject } from "./directory-object.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";
import { requestCounts } from "./request-counts.ts";
import type { KeyLookup } from "./stored-access.ts";
import { withinMs } from "./within-ms.ts";

/** A Directory that takes longer than this counts as away: TTFT runs meanwhile. */
const LOOKUP_TIMEOUT_MS = 2_000;

/** What a client is told to wait before it tries again when we cannot tell whose key it is. */
export const RETRY_AFTER_MS = 1_000;

// One per isolate, not per request: most requests then need no look-up at all.
const cache = new AccessCache();

/** How the Directory is asked for one thing. */
interface Question {
  readonly ask: (
    directory: DurableObjectStub<DirectoryObject>,
    knownState: string | undefined,
  ) => Promise<KeyLookup>;
  /** Throws where it must not be asked for what nobody here has met; absent: it may always. */
  readonly admit?: () => void;
}

/**
 * Finds what is known under a name: a key's hash, or a tenant that is vouched for. Asks the Directory where
 * that is not remembered, and throws `not_configured` while it cannot say.
 */
export async function findAccess(
  name: string,
  { env, nowMs }: { readonly env: Env; readonly nowMs: number },
  { ask, admit }: Question,
): Promise<TenantAccess | undefined> {
  const remembered = cache.recall(name, nowMs);
  if (remembered.kind === "known") return remembered.access;
  if (remembered.kind === "unknown") return undefined;
  const known = cache.recallGood(name, nowMs);
  if (known === undefined) admit?.();
  let answer: KeyLookup;
  try {
    const asked = ask(env.DIRECTORY.getByName(DIRECTORY_NAME), known?.directoryState);
    answer = await withinMs(asked, LOOKUP_TIMEOUT_MS);
  } catch (error) {
    return lastGoodAccess(name, nowMs, String(error));
  }
  if (answer.kind === "unconfigured") {
    throw new GatewayError({ code: "not_configured", retryAfterMs: RETRY_AFTER_MS });
  }
  const access = accessIn(answer, known);
  cache.learn(name, access, nowMs);
  return access;
}

function accessIn(answer: KeyLookup, known: TenantAccess | undefined): TenantAccess | undefined {
  if (answer.kind === "unchanged") return known;
  return answer.kind === "known" ? answer.access : undefined;
}

function lastGoodAccess(name: string, nowMs: number, reason: string): TenantAccess {
  const access = cache.recallLastGood(name, nowMs);
  // Revocations do not reach this edge meanwhile, so somebody has to hear of it.
  logLine("error", "directory-away", { reason, isServed: access !== undefined });
  requestCounts.countStaleAccess();
  if (access !== undefined) return access;
  throw new GatewayError({
    code: "not_configured",
    message: "The directory of tenants cannot be read at the moment",
    retryAfterMs: RETRY_AFTER_MS,
  });
}
