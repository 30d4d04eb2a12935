import { assert } from "../base/assert.ts";
import type { RequestId } from "../protocol/ids.ts";
import { HOLD_MS_MAX } from "../slo/answer-span.ts";
import { calendarMonthOf } from "./calendar-month.ts";
import { costMaxOf, costOf } from "./model-price.ts";
import type { Picos } from "./money.ts";
import type { UsageEnding } from "./usage-ending.ts";
import type { UsageChanges } from "./usage-journal.ts";
import { UsageJournal } from "./usage-journal.ts";
import type { OpenRow, UsageLedgerState, UsageRow } from "./usage-rows.ts";
import type { TokenUse } from "./usage-totals.ts";
import { addUsage, countUse, noUsage } from "./usage-totals.ts";

/** Twice what may run at once, since those of a former life are still open beside those of this one. */
export const OPEN_ROWS_MAX = 20_000;
/** Settled requests whose ids are remembered, so that telling twice counts once. */
export const SETTLED_IDS_MAX = 1_024;
/** Keys told apart; keys that are replaced again and again would otherwise add up. */
export const LEDGER_KEYS_MAX = 1_000;
/** Who holds a row and says nothing for so long is taken to be gone. */
export const ROW_SILENCE_MS_MAX = 30_000;

/** What a replica has recorded of a request: by its own counts, as far as it came. */
export type RecordedUse = Omit<TokenUse, "isEstimated">;

const NOTHING_RECORDED: ReadonlyMap<RequestId, RecordedUse> = new Map();

/** How a tenant stands in the current month. */
export interface MonthStanding {
  readonly month: number;
  readonly tokens: number;
  /** The most that the requests under way can add. */
  readonly reservedTokens: number;
  readonly spentPicos: Picos;
  readonly reservedPicos: Picos;
}

/** How a month stands at two of a tenant's objects; one of an earlier month has used nothing of it. */
export function addMonths(one: MonthStanding, other: MonthStanding): MonthStanding {
  const month = Math.max(one.month, other.month);
  const [used, otherUsed] = [one, other].map((standing) =>
    standing.month === month ? standing : { tokens: 0, spentPicos: 0n },
  );
  return {
    month,
    tokens: (used?.tokens ?? 0) + (otherUsed?.tokens ?? 0),
    spentPicos: (used?.spentPicos ?? 0n) + (otherUsed?.spentPicos ?? 0n),
    reservedTokens: one.reservedTokens + other.reservedTokens,
    reservedPicos: one.reservedPicos + other.reservedPicos,
  };
}

/**
 * What one tenant has used, for good. Every request has a row from before it begins until it is
 * settled, which happens exactly once whatever is told twice, late or never:
 *
 * - a settled request's id is remembered, so a second settlement is ignored;
 * - of ids that were forgotten it is known when the latest of them began: a settlement without a row
 *   that claims to have begun no later is ignored, since it may have been counted already;
 * - a row whose holder is gone is settled by what its replica says, or what was last heard of it.
 *
 * What nobody can show is not charged: a row of which nothing was heard costs its prompt alone.
 */
export class UsageLedger {
  readonly state: UsageLedgerState;
  /** Settled rows up to this one need not be kept to be exported; all, where nothing is exported. */
  exportedNumber = Infinity;
  readonly #journal: UsageJournal;
  #reservedTokens = 0;
  #reservedPicos = 0n;

  /** With the state of a former life all its rows are open, their holders perhaps gone. */
  constructor(state: UsageLedgerState = emptyLedger(), nowMs = 0) {
    this.state = state;
    this.#journal = new UsageJournal(state.open.keys());
    for (const row of state.open.values()) {
      row.settleByAtMs = nowMs + ROW_SILENCE_MS_MAX;
      this.#reserve(row);
    }
  }

  /** What of the current month is used and reserved. */
  monthStanding(nowMs: number): MonthStanding {
    const month = Math.max(calendarMonthOf(nowMs), this.state.month.number);
    const isCurrent = month === this.state.month.number;
    const { tokens, spentPicos } = isCurrent ? this.state.month : { tokens: 0, spentPicos: 0n };
    const [reservedTokens, reservedPicos] = [this.#reservedTokens, this.#reservedPicos];
    return { month, tokens, reservedTokens, spentPicos, reservedPicos };
  }

  /** Opens a request's row. One that is open or was settled stays as it is. */
  open(row: UsageRow, nowMs: number): "open" | "settled" | "full" {
    const { open, settledIds } = this.state;
    if (open.has(row.requestId)) return "open";
    if (settledIds.has(row.requestId)) return "settled";
    if (open.size >= OPEN_ROWS_MAX) return "full";
    open.set(row.requestId, { ...row, settleByAtMs: nowMs + HOLD_MS_MAX });
    this.#reserve(row);
    this.state.opened += 1;
    this.#journal.opened(row.requestId);
    return "open";
  }

  /** Takes down what has come of a request so far, which also says that somebody still holds it. */
  checkpoint(requestId: RequestId, outputTokens: number, nowMs: number): void {
    const row = this.state.open.get(requestId);
    if (row === undefined) return;
    row.outputTokens = Math.max(row.outputTokens ?? 0, outputTokens);
    row.settleByAtMs = Math.max(row.settleByAtMs, nowMs + ROW_SILENCE_MS_MAX);
    this.#journal.opened(requestId);
  }

  /** Says that whoever held a row is gone; what it had to say may still be on its way. */
  letGo(requestId: RequestId, nowMs: number): void {
    const row = this.state.open.get(requestId);
    if (row !== undefined) row.settleByAtMs = nowMs + ROW_SILENCE_MS_MAX;
  }

  /** Settles a request, once; false for what was settled before. A row that was lost is no obstacle. */
  settle(row: UsageRow, ending: UsageEnding, nowMs: number): boolean {
    const open = this.state.open.get(row.requestId);
    if (open === undefined) {
      if (this.#mayBeSettled(row)) return false;
      this.state.opened += 1;
    }
    this.#close(row);
    if (ending.kind === "refunded") this.state.refunded += 1;
    else this.#count(servedRow(row, ending), toUse(ending, row), ending.kind, nowMs);
    return true;
  }

  /** The rows whose holders are gone. */
  orphans(nowMs: number): readonly OpenRow[] {
    return [...this.state.open.values()].filter(({ settleByAtMs }) => settleByAtMs <= nowMs);
  }

  /**
   * Settles the rows whose holders are gone: by what their replicas recorded of them, or else by what was
   * last heard. Returns how many there were.
   */
  sweep(nowMs: number, recorded: ReadonlyMap<RequestId, RecordedUse> = NOTHING_RECORDED): number {
    const due = this.orphans(nowMs);
    for (const row of due) {
      this.#close(row);
      this.#count(row, useOfOrphan(row, recorded.get(row.requestId)), "orphaned", nowMs);
    }
    return due.length;
  }

  /** What has changed since this was asked last, to be stored whole or not at all. */
  takeChanges(): UsageChanges | undefined {
    return this.#journal.take(this.state, this.exportedNumber);
  }

  checkInvariants(): void {
    const { open, totals, totalsByKey, forgottenKeys, settledIds } = this.state;
    assert(open.size <= OPEN_ROWS_MAX, "open rows are within their bound");
    assert(settledIds.size <= SETTLED_IDS_MAX, "settled ids are within their bound");
    assert(totalsByKey.size <= LEDGER_KEYS_MAX, "keys are within their bound");
    const ended = totals.requests + this.state.refunded;
    assert(this.state.opened === open.size + ended, "every row is open, counted or refunded");
    const sum = { ...forgottenKeys };
    for (const ofKey of totalsByKey.values()) addUsage(sum, ofKey);
    for (const name of ["requests", "promptTokens", "outputTokens", "cachedTokens"] as const) {
      assert(sum[name] === totals[name], `the keys' ${name} make the tenant's`);
    }
    assert(sum.estimatedRequests === totals.estimatedRequests, "so do the estimated ones");
    assert(sum.spentPicos === totals.spentPicos, "so does what they cost");
    assert(this.state.month.spentPicos <= totals.spentPicos, "a month costs no more than all");
    let reservedTokens = 0;
    let reservedPicos = 0n;
    for (const { requestId, tokensMax, promptTokens, pricing } of open.values()) {
      assert(!settledIds.has(requestId), "no request is open and settled");
      reservedTokens += tokensMax;
      reservedPicos += costMaxOf(promptTokens, pricing);
    }
    assert(reservedTokens === this.#reservedTokens, "what is reserved is that of the open rows");
    assert(reservedPicos === this.#reservedPicos, "so is what they may cost");
  }

  #reserve({ tokensMax, promptTokens, pricing }: UsageRow): void {
    this.#reservedTokens += tokensMax;
    this.#reservedPicos += costMaxOf(promptTokens, pricing);
  }

  #giveBack({ tokensMax, promptTokens, pricing }: UsageRow): void {
    this.#reservedTokens -= tokensMax;
    this.#reservedPicos -= costMaxOf(promptTokens, pricing);
  }

  #mayBeSettled({ requestId, beganAtMs }: UsageRow): boolean {
    return this.state.settledIds.has(requestId) || beganAtMs <= this.state.forgottenUntilAtMs;
  }

  #close({ requestId, beganAtMs }: UsageRow): void {
    const { open, settledIds } = this.state;
    const row = open.get(requestId);
    if (row !== undefined) this.#giveBack(row);
    open.delete(requestId);
    this.#journal.closed(requestId);
    settledIds.set(requestId, beganAtMs);
    if (settledIds.size <= SETTLED_IDS_MAX) return;
    const [oldest] = settledIds;
    assert(oldest !== undefined, "a map beyond its bound is not empty");
    settledIds.delete(oldest[0]);
    this.state.forgottenUntilAtMs = Math.max(this.state.forgottenUntilAtMs, oldest[1]);
  }

  #count(row: UsageRow, use: TokenUse, how: "orphaned" | CountedKind, nowMs: number): void {
    const { totals, month } = this.state;
    const costPicos = costOf(use, row.pricing);
    countUse(totals, use, costPicos);
    countUse(this.#totalsOf(row.keyName), use, costPicos);
    const standing = this.monthStanding(nowMs);
    month.number = standing.month;
    month.tokens = standing.tokens + use.promptTokens + use.outputTokens;
    month.spentPicos = standing.spentPicos + costPicos;
    const { requestId, keyName, modelId, beganAtMs } = row;
    const names = { requestId, keyName, modelId, beganAtMs };
    const counted = { settledAtMs: nowMs, how, ...use, costPicos };
    this.#journal.settled({ number: totals.requests, ...names, ...counted });
  }

  /** The key used last is the last to be forgotten: then only its tenant's totals still have its part. */
  #totalsOf(keyName: string) {
    const { totalsByKey, forgottenKeys } = this.state;
    const totals = totalsByKey.get(keyName) ?? noUsage();
    totalsByKey.delete(keyName);
    if (totalsByKey.size >= LEDGER_KEYS_MAX) {
      const [oldest] = totalsByKey;
      assert(oldest !== undefined, "a map at its bound is not empty");
      addUsage(forgottenKeys, oldest[1]);
      totalsByKey.delete(oldest[0]);
      this.#journal.keyForgotten(oldest[0]);
    }
    totalsByKey.set(keyName, totals);
    this.#journal.keyUsed(keyName);
    return totals;
  }
}

type CountedKind = Exclude<UsageEnding["kind"], "refunded">;

/** A record is of one replica; what came from others before it, if more, was heard of all the same. */
function useOfOrphan(row: OpenRow, recorded: RecordedUse | undefined): TokenUse {
  const { promptTokens, outputTokens = 0 } = row;
  if (recorded === undefined || recorded.outputTokens < outputTokens) {
    return { promptTokens, outputTokens, cachedTokens: 0, isEstimated: true };
  }
  return { ...recorded, isEstimated: false };
}

function toUse(ending: Exclude<UsageEnding, { kind: "refunded" }>, row: UsageRow): TokenUse {
  if (ending.kind === "unknown") {
    const { promptTokens } = row;
    return { promptTokens, outputTokens: 0, cachedTokens: 0, isEstimated: true };
  }
  const { promptTokens, outputTokens, cachedTokens } = ending;
  return { promptTokens, outputTokens, cachedTokens, isEstimated: ending.kind === "estimated" };
}

/** A request is counted and charged as one for the model that answered. */
function servedRow(row: UsageRow, { served }: UsageEnding): UsageRow {
  if (served === undefined) return row;
  const { requestId, keyName, beganAtMs, promptTokens, tokensMax } = row;
  return { requestId, keyName, beganAtMs, promptTokens, tokensMax, ...served };
}

function emptyLedger(): UsageLedgerState {
  return {
    open: new Map(),
    totals: noUsage(),
    totalsByKey: new Map(),
    forgottenKeys: noUsage(),
    opened: 0,
    refunded: 0,
    month: { number: 0, tokens: 0, spentPicos: 0n },
    settledIds: new Map(),
    firstKeptNumber: 1,
    forgottenUntilAtMs: 0,
  };
}
