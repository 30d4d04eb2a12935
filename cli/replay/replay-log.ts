import type { WrittenDecisions } from "../../src/pool/decision-lines.ts";
import type { LoggedCall } from "../../src/pool/decision-log.ts";
import { replay } from "../../src/pool/decision-log.ts";
import type { PoolCall } from "../../src/pool/pool-call.ts";
import type { PoolEffect } from "../../src/pool/pool-effect.ts";
import type { Difference } from "./first-difference.ts";
import { firstDifference } from "./first-difference.ts";

/** The first call of a log that led to something else when it was made again. */
interface Divergence {
  /** Of all calls of the log, counted from 1. */
  readonly callNumber: number;
  readonly kind: PoolCall["kind"];
  readonly requestId: string | undefined;
  readonly atMs: number;
  readonly logged: readonly PoolEffect[];
  readonly replayed: readonly PoolEffect[];
  readonly difference: Difference | undefined;
}

/** What became of making a log's decisions again. */
export interface ReplayReport {
  readonly isWhole: boolean;
  readonly snapshots: number;
  readonly calls: number;
  /** By kind of effect, as logged. */
  readonly effects: Readonly<Record<string, number>>;
  /** Calls that led to something else; those behind the first may only follow from it. */
  readonly diverged: number;
  readonly first: Divergence | undefined;
}

/** Makes every decision of a log again, each record from its own snapshot, by the rules of this version. */
export function replayLog({ epoch, records, isWhole }: WrittenDecisions): ReplayReport {
  const effects: Record<string, number> = {};
  let callsBefore = 0;
  let diverged = 0;
  let first: Divergence | undefined;
  for (const record of records) {
    for (const { effects: own } of record.calls) {
      for (const { kind } of own) effects[kind] = (effects[kind] ?? 0) + 1;
    }
    // A snapshot holds all that a pool remembers, so neither its beginning nor its dice matter any more.
    const divergences = replay(record, { epoch, startedAtMs: 0, seed: 0 });
    diverged += divergences.length;
    const [earliest] = divergences;
    if (earliest !== undefined) {
      const callNumber = callsBefore + record.calls.indexOf(earliest.logged) + 1;
      first ??= toDivergence(callNumber, earliest.logged, earliest.replayed);
    }
    callsBefore += record.calls.length;
  }
  return { isWhole, snapshots: records.length, calls: callsBefore, effects, diverged, first };
}

function toDivergence(
  callNumber: number,
  { call, nowMs, effects }: LoggedCall,
  replayed: readonly PoolEffect[],
): Divergence {
  return {
    callNumber,
    kind: call.kind,
    requestId: requestOf(call),
    atMs: nowMs,
    logged: effects,
    replayed,
    difference: firstDifference(effects, replayed),
  };
}

function requestOf(call: PoolCall): string | undefined {
  if ("offer" in call) return call.offer.requestId;
  return "requestId" in call ? call.requestId : undefined;
}
