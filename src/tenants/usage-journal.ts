import type { RequestId } from "../protocol/ids.ts";
import type { LedgerHead, OpenRow, SettledRow, UsageLedgerState } from "./usage-rows.ts";
import type { UsageTotals } from "./usage-totals.ts";

/** Counted requests of which each is kept; older ones are in the totals alone. */
export const SETTLED_ROWS_MAX = 50_000;
/** Where they are to be exported, and that does not get on: beyond it the oldest are given up. */
export const UNEXPORTED_ROWS_MAX = 250_000;
/** Once an export gets on again, so many are dropped with each write beside what it makes room for. */
const DROPPED_MORE_MAX = 1_000;

/** What has to be stored for a ledger to be found as it is now. */
export interface UsageChanges {
  readonly head: LedgerHead;
  readonly open: readonly OpenRow[];
  readonly closedIds: readonly RequestId[];
  readonly settled: readonly SettledRow[];
  /** Numbers of settled rows that are kept no longer. */
  readonly droppedNumbers: readonly number[];
  readonly keys: readonly (readonly [name: string, totals: UsageTotals])[];
  readonly forgottenKeyNames: readonly string[];
}

/**
 * Remembers what of a ledger is not stored yet. A row that is opened and closed in between was never
 * stored, so a request that is refused at once costs no write.
 */
export class UsageJournal {
  readonly #openedIds = new Set<RequestId>();
  readonly #storedIds = new Set<RequestId>();
  readonly #closedIds = new Set<RequestId>();
  #settled: SettledRow[] = [];
  readonly #keyNames = new Set<string>();
  readonly #forgottenKeyNames = new Set<string>();

  /** With a ledger of a former life all its open rows are stored. */
  constructor(openIds: Iterable<RequestId> = []) {
    for (const requestId of openIds) this.#storedIds.add(requestId);
  }

  opened(requestId: RequestId): void {
    this.#openedIds.add(requestId);
  }

  closed(requestId: RequestId): void {
    this.#openedIds.delete(requestId);
    if (this.#storedIds.delete(requestId)) this.#closedIds.add(requestId);
  }

  settled(row: SettledRow): void {
    this.#settled.push(row);
  }

  keyUsed(name: string): void {
    this.#forgottenKeyNames.delete(name);
    this.#keyNames.add(name);
  }

  keyForgotten(name: string): void {
    this.#keyNames.delete(name);
    this.#forgottenKeyNames.add(name);
  }

  /**
   * Returns what is to be stored, which from now on counts as stored. Rows beyond `exportedNumber` are kept
   * for longer than others.
   */
  take(state: UsageLedgerState, exportedNumber: number): UsageChanges | undefined {
    const isNothing =
      this.#openedIds.size === 0 && this.#closedIds.size === 0 && this.#settled.length === 0;
    if (isNothing) return undefined;
    const { totals, forgottenKeys, opened, refunded, month, forgottenUntilAtMs } = state;
    const changes: UsageChanges = {
      head: { totals, forgottenKeys, opened, refunded, month, forgottenUntilAtMs },
      open: [...this.#openedIds].flatMap((requestId) => state.open.get(requestId) ?? []),
      closedIds: [...this.#closedIds],
      settled: this.#settled,
      droppedNumbers: dropOldest(state, exportedNumber, this.#settled.length + DROPPED_MORE_MAX),
      keys: [...this.#keyNames].flatMap((name): [string, UsageTotals][] => {
        const ofKey = state.totalsByKey.get(name);
        return ofKey === undefined ? [] : [[name, ofKey]];
      }),
      forgottenKeyNames: [...this.#forgottenKeyNames],
    };
    for (const requestId of this.#openedIds) this.#storedIds.add(requestId);
    this.#openedIds.clear();
    this.#closedIds.clear();
    this.#settled = [];
    this.#keyNames.clear();
    this.#forgottenKeyNames.clear();
    return changes;
  }
}

/** Gives up the oldest settled rows, as far as nobody needs them or there are too many. Returns their numbers. */
function dropOldest(state: UsageLedgerState, exportedNumber: number, countMax: number): number[] {
  const { firstKeptNumber, totals } = state;
  const unneeded = Math.min(totals.requests - SETTLED_ROWS_MAX, exportedNumber);
  const lastDropped = Math.max(unneeded, totals.requests - UNEXPORTED_ROWS_MAX);
  const count = Math.max(0, Math.min(lastDropped - firstKeptNumber + 1, countMax));
  state.firstKeptNumber += count;
  return Array.from({ length: count }, (_, index) => firstKeptNumber + index);
}
