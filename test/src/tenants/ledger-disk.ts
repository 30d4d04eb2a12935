import { copyState } from "../../../src/base/plain-state.ts";
import type { UsageChanges } from "../../../src/tenants/usage-journal.ts";
import { SETTLED_IDS_MAX, UsageLedger } from "../../../src/tenants/usage-ledger.ts";
import type { LedgerHead, OpenRow, SettledRow } from "../../../src/tenants/usage-rows.ts";
import { toLedgerState } from "../../../src/tenants/usage-rows.ts";
import type { UsageTotals } from "../../../src/tenants/usage-totals.ts";

/** What is left of a ledger when its object dies. */
export class LedgerDisk {
  #head: LedgerHead | undefined;
  readonly open = new Map<string, OpenRow>();
  readonly settled = new Map<number, SettledRow>();
  readonly #keys = new Map<string, UsageTotals>();

  write(changes: UsageChanges | undefined): void {
    if (changes === undefined) return;
    const { head, open, closedIds, settled, droppedNumbers, keys, forgottenKeyNames } =
      copyState(changes);
    this.#head = head;
    for (const row of open) this.open.set(row.requestId, row);
    for (const requestId of closedIds) this.open.delete(requestId);
    for (const row of settled) this.settled.set(row.number, row);
    for (const number of droppedNumbers) this.settled.delete(number);
    for (const [name, totals] of keys) this.#keys.set(name, totals);
    for (const name of forgottenKeyNames) this.#keys.delete(name);
  }

  load(nowMs: number): UsageLedger {
    if (this.#head === undefined) return new UsageLedger(undefined, nowMs);
    const stored = {
      head: this.#head,
      open: [...this.open.values()],
      keys: [...this.#keys],
      settled: [...this.settled.values()].slice(-SETTLED_IDS_MAX),
      firstKeptNumber: [...this.settled.keys()][0],
    };
    return new UsageLedger(toLedgerState(copyState(stored)), nowMs);
  }
}
