import { mix32 } from "../base/hash.ts";

/**
 * How much a route prefers a replica, in [0, 2³²): the highest of a pool's replicas comes first.
 *
 * Rendezvous hashing (Thaler and Ravishankar, 1998): everybody who knows the replicas agrees on the
 * order without having talked, and a replica that comes or goes moves only the routes that prefer
 * it. Both arguments are `hashText()` of a name, so that a decision over many replicas hashes none.
 */
export function rendezvousWeight(routeHash: number, replicaHash: number): number {
  return mix32(routeHash ^ replicaHash);
}
