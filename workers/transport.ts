import type { ReplicaTransport } from "../src/replicas/replica-state.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";
import type { Settings } from "./settings.ts";

/** The way to a pool's replicas. Whatever it is, only URLs of the configuration are asked, and no redirect is followed. */
export interface Transport {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** What whoever stands in front of the replicas wants to see. */
  readonly headers: Readonly<Record<string, string>>;
}

type Way =
  | { readonly kind: "open"; readonly transport: Transport }
  | { readonly kind: "faulty"; readonly name: string; readonly reason: string };

/**
 * Returns the way to a pool's replicas. Throws `not_configured` where the Worker does not have what the pool names;
 * which that is, only the log says.
 */
export function transportOf(wanted: ReplicaTransport | undefined, settings: Settings): Transport {
  const way = wayOf(wanted, settings);
  if (way.kind === "open") return way.transport;
  logLine("error", "pool-transport", { name: way.name, details: way.reason });
  throw new GatewayError({
    code: "not_configured",
    message: "The gateway has no way to the servers of this model",
  });
}

/** What is wrong with a pool's transport, for its operator; `undefined` where it is well. */
export function transportFaultOf(
  wanted: ReplicaTransport | undefined,
  settings: Settings,
): string | undefined {
  const way = wayOf(wanted, settings);
  return way.kind === "open" ? undefined : `${way.name} ${way.reason}`;
}

function wayOf({ via, access }: ReplicaTransport = {}, settings: Settings): Way {
  const headers: Record<string, string> = {};
  const token = access && {
    "cf-access-client-id": access.idName,
    "cf-access-client-secret": access.secretName,
  };
  for (const [header, name] of Object.entries(token ?? {})) {
    const found = settings.poolSecretOf(name);
    if (found.kind === "faulty") return { ...found, name };
    headers[header] = found.secret;
  }
  if (via === undefined) return { kind: "open", transport: { fetch: plainFetch, headers } };
  const found = settings.bindingOf(via);
  if (found.kind === "faulty") return { ...found, name: via };
  return { kind: "open", transport: { fetch: found.fetch ?? plainFetch, headers } };
}

const plainFetch: Transport["fetch"] = (url, init) => fetch(url, init);
