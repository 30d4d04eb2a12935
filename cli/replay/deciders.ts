import { copyState } from "../../src/base/plain-state.ts";
import { seededRandom } from "../../src/base/random.ts";
import type { Mechanisms } from "../../src/pool/mechanisms.ts";
import { ALL_MECHANISMS } from "../../src/pool/mechanisms.ts";
import type { Offer } from "../../src/pool/offer.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { Policy } from "../../simulator/policies/policy.ts";
import { policyRequestOf } from "../../simulator/policies/policy-request-of.ts";
import { UNTOLD_POLICIES } from "../../simulator/policies/reference-policies.ts";
import { SaturationShed } from "../../simulator/policies/saturation-shed.ts";

/** What is decided on one offer when it is made. */
export type OfferVerdict =
  | { readonly kind: "dispatch"; readonly replicaId: string }
  | { readonly kind: "reject"; readonly reason: string }
  | { readonly kind: "wait" };

/** Decides beside a pool that goes its own way. */
export interface Decider {
  decide(offer: Offer, live: Pool, nowMs: number): OfferVerdict;
}

const POLICIES = {
  ...UNTOLD_POLICIES,
  "saturation-shed": () => new SaturationShed(),
} as const satisfies Record<string, () => Policy>;

/** The names of those who may decide beside a log: published policies, and our rules without one of them. */
export const DECIDER_NAMES: readonly string[] = [
  ...Object.keys(POLICIES),
  ...Object.keys(ALL_MECHANISMS).map((name) => `no-${name}`),
];

/** Makes one of them by its name. */
export function deciderOf(name: string, epoch: string): Decider | undefined {
  for (const [own, create] of Object.entries(POLICIES)) {
    if (own === name) return new PolicyDecider(create());
  }
  const mechanism = Object.keys(ALL_MECHANISMS).find((each) => name === `no-${each}`);
  return mechanism === undefined ? undefined : new PoolDecider(epoch, { [mechanism]: false });
}

/** The same pool by other rules: a copy of the live one, made for each offer and thrown away behind it. */
class PoolDecider implements Decider {
  readonly #epoch: string;
  readonly #mechanisms: Partial<Mechanisms>;

  constructor(epoch: string, mechanisms: Partial<Mechanisms>) {
    this.#epoch = epoch;
    this.#mechanisms = mechanisms;
  }

  decide(offer: Offer, live: Pool, nowMs: number): OfferVerdict {
    const pool = new Pool({
      epoch: this.#epoch,
      startedAtMs: 0,
      seed: 0,
      mechanisms: this.#mechanisms,
      state: copyState(live.state),
    });
    return verdictIn(pool.offer(offer, nowMs), offer);
  }
}

/** A published policy, which is told what the live pool knows of its replicas. */
class PolicyDecider implements Decider {
  readonly #policy: Policy;
  readonly #random = seededRandom(1);

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  decide(offer: Offer, live: Pool, nowMs: number): OfferVerdict {
    const { replicas } = live.status(nowMs);
    const open = replicas.flatMap(({ replicaId, state, outstanding, ...told }, replicaIndex) => {
      if (state !== "ready" || offer.excludedReplicaIds.includes(replicaId)) return [];
      const { running = 0, queued = 0, usedBlocks = 0, blockCount = 1 } = told;
      const usedKvRatio = usedBlocks / blockCount;
      return [
        {
          replicaId,
          replicaIndex,
          outstanding,
          usedKvRatio,
          runningRequests: running,
          queuedRequests: queued,
        },
      ];
    });
    const moment = { nowMs, random: this.#random };
    const verdict = this.#policy.choose(policyRequestOf(offer, nowMs), open, moment);
    if (verdict.kind === "reject") return { kind: "reject", reason: "its own rule" };
    if (verdict.kind === "wait") return verdict;
    const chosen = open.find(({ replicaIndex }) => replicaIndex === verdict.replicaIndex);
    return { kind: "dispatch", replicaId: chosen?.replicaId ?? "unknown" };
  }
}

/** Of what an offer led to, what concerns itself; nothing means that it waits. */
export function verdictIn(effects: ReturnType<Pool["offer"]>, { requestId }: Offer): OfferVerdict {
  for (const effect of effects) {
    if (effect.kind === "dispatch" && effect.requestId === requestId) {
      return { kind: "dispatch", replicaId: effect.dispatch.replicaId };
    }
    if (effect.kind === "reject" && effect.requestId === requestId) {
      return { kind: "reject", reason: effect.rejection.reason };
    }
  }
  return { kind: "wait" };
}
