import type { SaidLimit } from "../protocol/said-limit.ts";
import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { LeaseId, ReplicaId, RequestId } from "../protocol/ids.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import { unreachable } from "../base/assert.ts";
import type { Offer, Outcome, PrefillOutcome } from "./offer.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { Pool } from "./pool.ts";

/** One call of a pool, as data: all that it decides follows from these and where it began. */
export type PoolCall =
  | { readonly kind: "configure"; readonly pool: LivePool }
  | { readonly kind: "close"; readonly isClosed: boolean }
  | { readonly kind: "drain"; readonly replicaId: ReplicaId; readonly isDrained: boolean }
  | { readonly kind: "connected"; readonly hello: ReplicaHello }
  | { readonly kind: "report"; readonly replicaId: ReplicaId; readonly report: ReplicaReport }
  | { readonly kind: "told"; readonly replicaId: ReplicaId; readonly said: EngineSignals }
  | { readonly kind: "disconnected"; readonly replicaId: ReplicaId }
  | { readonly kind: "offer"; readonly offer: Offer }
  | { readonly kind: "withdraw"; readonly requestId: RequestId }
  | { readonly kind: "started"; readonly leaseId: LeaseId; readonly firstTokenAfterMs: number }
  | {
      readonly kind: "prefilled";
      readonly leaseId: LeaseId;
      readonly outcome: PrefillOutcome;
    }
  | { readonly kind: "hedge"; readonly leaseId: LeaseId; readonly offer: Offer }
  | { readonly kind: "stalled"; readonly leaseId: LeaseId }
  | { readonly kind: "limited"; readonly leaseId: LeaseId; readonly said: SaidLimit }
  | { readonly kind: "settle"; readonly leaseId: LeaseId; readonly outcome: Outcome }
  | { readonly kind: "wake" };

/** Makes the call. */
export function callPool(pool: Pool, call: PoolCall, nowMs: number): PoolEffect[] {
  switch (call.kind) {
    case "configure":
      return pool.configure(call.pool, nowMs);
    case "close":
      return pool.close(call.isClosed, nowMs);
    case "drain":
      return pool.drain(call.replicaId, call.isDrained, nowMs);
    case "connected":
      return pool.connected(call.hello, nowMs);
    case "report":
      return pool.report(call.replicaId, call.report, nowMs);
    case "told":
      return pool.told(call.replicaId, call.said, nowMs);
    case "disconnected":
      return pool.disconnected(call.replicaId, nowMs);
    case "offer":
      return pool.offer(call.offer, nowMs);
    case "withdraw":
      return pool.withdraw(call.requestId, nowMs);
    case "started":
      return pool.started(call.leaseId, call.firstTokenAfterMs, nowMs);
    case "prefilled":
      return pool.prefilled(call.leaseId, call.outcome, nowMs);
    case "hedge":
      return pool.hedge(call.leaseId, call.offer, nowMs);
    case "stalled":
      return pool.stalled(call.leaseId, nowMs);
    case "limited":
      return pool.limited(call.leaseId, call.said, nowMs);
    case "settle":
      return pool.settle(call.leaseId, call.outcome, nowMs);
    case "wake":
      return pool.wake(nowMs);
    default:
      return unreachable(call);
  }
}
