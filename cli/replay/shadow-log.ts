import { copyState } from "../../src/base/plain-state.ts";
import type { WrittenDecisions } from "../../src/pool/decision-lines.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import { callPool } from "../../src/pool/pool-call.ts";
import { Pool } from "../../src/pool/pool.ts";
import type { Decider, OfferVerdict } from "./deciders.ts";
import { verdictIn } from "./deciders.ts";

/** How the live pool answered one offer, how the other would have, and how it ended where that is logged. */
interface ShadowedOffer {
  readonly atMs: number;
  readonly requestId: string;
  readonly tenantId: string;
  readonly live: OfferVerdict;
  readonly shadow: OfferVerdict;
  /** Only of requests that the live pool dispatched and whose end is in the log. */
  ending?: "good" | "missed" | "other";
}

/** One way in which both may decide, and how often it was so. */
interface VerdictPair {
  readonly live: OfferVerdict["kind"];
  readonly shadow: OfferVerdict["kind"];
  readonly offers: number;
  /** Of those, as far as the log tells. */
  readonly good: number;
  readonly missed: number;
}

export interface ShadowReport {
  readonly offers: number;
  /** Offers with the same kind of verdict. */
  readonly agreed: number;
  /** Among those that both dispatched, to the same replica. */
  readonly sameReplica: number;
  readonly pairs: readonly VerdictPair[];
  readonly byTenant: Readonly<Record<string, { readonly offers: number; readonly agreed: number }>>;
  /** The first of those on which they differ. */
  readonly differing: readonly ShadowedOffer[];
}

const DIFFERING_MAX = 20;
const KINDS = ["dispatch", "wait", "reject"] as const;

/**
 * Lets somebody else decide beside a log: on every offer as it was made, in the state that the live pool was
 * in. Only its verdicts are noted. The pool goes on as it did, so that each is what the other would have done
 * once, and not what would have become of a pool in its hands.
 */
export function shadowLog({ epoch, records }: WrittenDecisions, decider: Decider): ShadowReport {
  const seen: ShadowedOffer[] = [];
  for (const record of records) {
    const live = new Pool({ epoch, startedAtMs: 0, seed: 0, state: copyState(record.snapshot) });
    const open = new Map<string, ShadowedOffer>();
    const leases = new Map<string, string>();
    for (const { call, nowMs, effects } of record.calls) {
      if (call.kind === "offer") {
        const shadowed: ShadowedOffer = {
          atMs: nowMs,
          requestId: call.offer.requestId,
          tenantId: call.offer.tenantId,
          shadow: decider.decide(call.offer, live, nowMs),
          live: verdictIn([...effects], call.offer),
        };
        seen.push(shadowed);
        open.set(call.offer.requestId, shadowed);
      }
      callPool(live, call, nowMs);
      noteLeases(effects, leases);
      if (call.kind !== "settle") continue;
      const ended = open.get(leases.get(call.leaseId) ?? "");
      leases.delete(call.leaseId);
      if (ended === undefined || call.outcome.attainment === undefined) continue;
      const { kind } = call.outcome.attainment;
      ended.ending = kind === "excluded" ? "other" : kind;
      open.delete(ended.requestId);
    }
  }
  return toReport(seen);
}

function noteLeases(effects: readonly PoolEffect[], leases: Map<string, string>): void {
  for (const effect of effects) {
    if (effect.kind === "dispatch") leases.set(effect.leaseId, effect.requestId);
  }
}

function toReport(seen: readonly ShadowedOffer[]): ShadowReport {
  const byTenant = new Map<string, { offers: number; agreed: number }>();
  for (const { tenantId, live, shadow } of seen) {
    const own = byTenant.get(tenantId) ?? { offers: 0, agreed: 0 };
    byTenant.set(tenantId, own);
    own.offers += 1;
    if (live.kind === shadow.kind) own.agreed += 1;
  }
  const pairs = KINDS.flatMap((live) =>
    KINDS.map((shadow) => {
      const own = seen.filter((each) => each.live.kind === live && each.shadow.kind === shadow);
      const countOf = (ending: ShadowedOffer["ending"]) =>
        own.filter((each) => each.ending === ending).length;
      return { live, shadow, offers: own.length, good: countOf("good"), missed: countOf("missed") };
    }),
  );
  return {
    offers: seen.length,
    agreed: seen.filter(({ live, shadow }) => live.kind === shadow.kind).length,
    sameReplica: seen.filter(isAtOnePlace).length,
    pairs: pairs.filter(({ offers }) => offers > 0),
    byTenant: Object.fromEntries(byTenant),
    differing: seen.filter(({ live, shadow }) => live.kind !== shadow.kind).slice(0, DIFFERING_MAX),
  };
}

function isAtOnePlace({ live, shadow }: ShadowedOffer): boolean {
  return (
    live.kind === "dispatch" && shadow.kind === "dispatch" && live.replicaId === shadow.replicaId
  );
}
