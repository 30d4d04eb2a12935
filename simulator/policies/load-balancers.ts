import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { type Policy, type PolicyReplica, REJECTED } from "./policy.ts";

/** Deals requests out in turn, as most proxies do unless told otherwise. */
export class RoundRobin implements Policy {
  #turns = 0;

  choose(_request: unknown, replicas: readonly PolicyReplica[]) {
    if (replicas.length === 0) return REJECTED;
    this.#turns += 1;
    return dispatchTo(replicas[this.#turns % replicas.length]);
  }
}

/** Sends each request to where the fewest of the router's own are outstanding; equals by chance. */
export class LeastOutstanding implements Policy {
  choose(
    _request: unknown,
    replicas: readonly PolicyReplica[],
    { random }: { readonly random: Random },
  ) {
    if (replicas.length === 0) return REJECTED;
    const least = replicas.reduce((low, { outstanding }) => Math.min(low, outstanding), Infinity);
    const equals = replicas.filter(({ outstanding }) => outstanding === least);
    return dispatchTo(equals[Math.floor(random() * equals.length)]);
  }
}

/** Sends each request to the less loaded of two different replicas drawn by chance (Mitzenmacher, 2001). */
export class PowerOfTwoChoices implements Policy {
  choose(
    _request: unknown,
    replicas: readonly PolicyReplica[],
    { random }: { readonly random: Random },
  ) {
    const count = replicas.length;
    if (count === 0) return REJECTED;
    const first = Math.floor(random() * count);
    const second = (first + 1 + Math.floor(random() * (count - 1))) % count;
    const [one, other] = [replicas[first], replicas[second]];
    return dispatchTo((one?.outstanding ?? 0) <= (other?.outstanding ?? 0) ? one : other);
  }
}

function dispatchTo(replica: PolicyReplica | undefined) {
  assert(replica !== undefined, "a request goes to one of the replicas");
  return { kind: "dispatch", replicaIndex: replica.replicaIndex } as const;
}
