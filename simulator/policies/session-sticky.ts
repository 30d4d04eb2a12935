import { assert } from "../../src/base/assert.ts";
import { hashText } from "../../src/base/hash.ts";
import { rendezvousWeight } from "../../src/routing/rendezvous.ts";
import type { Policy, PolicyReplica, PolicyRequest, PolicyVerdict } from "./policy.ts";
import { REJECTED } from "./policy.ts";

export interface SessionStickyOptions {
  /** A replica with so many times the mean is passed over, as consistent hashing with bounded loads does. */
  readonly loadRatioMax: number;
}

/**
 * Sends each session to the replica that its name is hashed to, as cookies and session headers do at most
 * load balancers: whatever is cached there, and whatever else is to do. With a bound it is CHWBL (Mirrokni
 * et al., 2018), as KubeAI's `PrefixHash` has it.
 */
export class SessionSticky implements Policy {
  readonly #loadRatioMax: number;

  constructor({ loadRatioMax = Infinity }: Partial<SessionStickyOptions> = {}) {
    this.#loadRatioMax = loadRatioMax;
  }

  choose({ route }: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    const total = replicas.reduce((sum, { outstanding }) => sum + outstanding, 0);
    const ceiling = Math.ceil((this.#loadRatioMax * (total + 1)) / replicas.length);
    const routeHash = hashText(route);
    const preferred = replicas.toSorted(
      (a, b) => weightOf(routeHash, b) - weightOf(routeHash, a) || a.replicaIndex - b.replicaIndex,
    );
    const chosen = preferred.find(({ outstanding }) => outstanding < ceiling) ?? preferred[0];
    assert(chosen !== undefined, "a replica is up");
    return { kind: "dispatch", replicaIndex: chosen.replicaIndex };
  }
}

function weightOf(routeHash: number, { replicaIndex }: PolicyReplica): number {
  return rendezvousWeight(routeHash, hashText(`replica ${replicaIndex}`));
}
