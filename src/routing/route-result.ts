import { rendezvousWeight } from "./rendezvous.ts";

/** Why a request went where it went: another replica had failed it, its prefix is there, its route prefers it. */
export type RouteResult = "failover" | "prefix" | "primary" | "spill";

/** What is told of a dispatch; `replicas` are all that are in use, with the one that was chosen. */
export interface Routed {
  readonly isRetry: boolean;
  readonly cachedTokens: number;
  readonly routeHash: number;
  readonly chosen: { readonly hash: number };
  readonly replicas: Iterable<{ readonly hash: number; readonly isRemoved: boolean }>;
}

/** Names what decided; `spill` is any replica but the one that the request's route prefers. */
export function routeResult(routed: Routed): RouteResult {
  if (routed.isRetry) return "failover";
  if (routed.cachedTokens > 0) return "prefix";
  const { routeHash, chosen, replicas } = routed;
  const weight = rendezvousWeight(routeHash, chosen.hash);
  for (const { hash, isRemoved } of replicas) {
    if (!isRemoved && rendezvousWeight(routeHash, hash) > weight) return "spill";
  }
  return "primary";
}
