import type { RequestId } from "../protocol/ids.ts";
import type { LedgerHead, OpenRow, SettledRow, UsageLedgerState } from "./usage-rows.ts";
import type { UsageTotals } from "./usage-totals.ts";

/** Counted requests of which each is kept; older ones are in the totals alone. */
export const SETTLED_ROWS_MAX = 50_000;

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

  /** Returns what is to be stored, which from now on counts as stored. */
  take(state: UsageLedgerState): UsageChanges | undefined {
    const isNothing =
      this.#openedIds.size === 0 && this.#closedIds.size === 0 && this.#settled.length === 0;
    if (isNothing) return undefined;
    const { totals, forgottenKeys, opened, refunded, month, forgottenUntilAtMs } = state;
    const changes: UsageChanges = {
      head: { totals, forgottenKeys, opened, refunded, month, forgottenUntilAtMs },
      open: [...this.#openedIds].flatMap((requestId) => state.open.get(requestId) ?? []),
      closedIds: [...this.#closedIds],
      settled: this.#settled,
      droppedNumbers: this.#settled
        .map(({ number }) => number - SETTLED_ROWS_MAX)
        .filter((number) => number > 0),
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
