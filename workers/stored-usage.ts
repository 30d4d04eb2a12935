import type { UsageChanges } from "../src/tenants/usage-journal.ts";
import { SETTLED_IDS_MAX, UsageLedger } from "../src/tenants/usage-ledger.ts";
import {
  LedgerHead,
  OpenRow,
  SettledRow,
  StoredTotals,
  toLedgerState,
} from "../src/tenants/usage-rows.ts";

const HEAD_KEY = "usage-head";
const OPEN_PREFIX = "usage-open:";
const TOTALS_PREFIX = "usage-key:";
const SETTLED_PREFIX = "usage-settled:";
/** So that keys in order of text are in order of number. */
const NUMBER_DIGITS = 16;

/**
 * What nobody waits for at once is written after so long: until then the request that it is about is on
 * its way to a replica, and a runtime that computes nothing while it syncs costs no first token.
 */
const UNHURRIED_MS = 2;
/** Of one call of the storage. */
const KEYS_PER_CALL_MAX = 128;

/**
 * Keeps a tenant's ledger on disk. One write is on its way at a time, and what changes meanwhile goes
 * together with the next, whole or not at all; whoever has to know that something is stored waits for
 * the write that has it. Writes are unconfirmed, since any other would hold back all that the object has to
 * say meanwhile.
 */
export class StoredUsage {
  readonly ledger: UsageLedger;
  readonly #storage: DurableObjectStorage;
  /** On its way to the disk. */
  #writing: Promise<void> | undefined;
  /** Waits for that, and takes with it what changes until then: they share an fsync. */
  #next: Promise<void> | undefined;
  #hurryNext: () => void = () => {};

  /** Throws where what is stored cannot be read: a ledger that begins anew would charge twice. */
  constructor(storage: DurableObjectStorage, nowMs: number) {
    this.#storage = storage;
    this.ledger = loadLedger(storage, nowMs);
  }

  /**
   * Resolves when all that has happened to the ledger so far is on disk; `urgently` where somebody waits
   * for just that. When it rejects the object must end, since it knows of things that its next life
   * will not.
   */
  saved(urgency: "urgently" | "soon"): Promise<void> {
    this.#next ??= this.#saveNext(this.#writing);
    if (urgency === "urgently") this.#hurryNext();
    return this.#next;
  }

  /** Counted requests after one, oldest first. */
  settledAfter(number: number, countMax: number): readonly SettledRow[] {
    const options = { prefix: SETTLED_PREFIX, startAfter: settledKey(number), limit: countMax };
    return [...this.#storage.kv.list(options)].map(([, row]) => SettledRow.parse(row));
  }

  async #saveNext(before: Promise<void> | undefined): Promise<void> {
    const hurried = new Promise<void>((resolve) => {
      this.#hurryNext = resolve;
    });
    await Promise.race([hurried, scheduler.wait(UNHURRIED_MS)]);
    // After one that failed nothing is written any more: it would be an increment to what is not there.
    await before;
    this.#writing = this.#next;
    this.#next = undefined;
    const changes = this.ledger.takeChanges();
    const writes = changes === undefined ? [] : this.#write(changes);
    const synced = async (): Promise<void> => this.#storage.sync();
    await Promise.all([...writes, synced()]);
  }

  /**
   * Nothing is awaited in between, so the runtime stores all of it or nothing. Storage that is gone rejects
   * one call and throws at the next; either is a rejection here, or those before would have nobody to
   * handle theirs.
   */
  #write(changes: UsageChanges): Promise<unknown>[] {
    const puts: [string, unknown][] = [
      [HEAD_KEY, changes.head],
      ...changes.open.map((row): [string, unknown] => [OPEN_PREFIX + row.requestId, row]),
      ...changes.settled.map((row): [string, unknown] => [settledKey(row.number), row]),
      ...changes.keys.map(([name, totals]): [string, unknown] => [TOTALS_PREFIX + name, totals]),
    ];
    const deletes = [
      ...changes.closedIds.map((requestId) => OPEN_PREFIX + requestId),
      ...changes.droppedNumbers.map(settledKey),
      ...changes.forgottenKeyNames.map((name) => TOTALS_PREFIX + name),
    ];
    const unconfirmed = { allowUnconfirmed: true };
    return [
      ...chunksOf(puts).map(async (part) =>
        this.#storage.put(Object.fromEntries(part), unconfirmed),
      ),
      ...chunksOf(deletes).map(async (part) => this.#storage.delete(part, unconfirmed)),
    ];
  }
}

function loadLedger({ kv }: DurableObjectStorage, nowMs: number): UsageLedger {
  const head = kv.get(HEAD_KEY);
  if (head === undefined) return new UsageLedger(undefined, nowMs);
  const open = [...kv.list({ prefix: OPEN_PREFIX })].map(([, row]) => OpenRow.parse(row));
  const keys = [...kv.list({ prefix: TOTALS_PREFIX })].map(
    ([key, totals]) => [key.slice(TOTALS_PREFIX.length), StoredTotals.parse(totals)] as const,
  );
  const newest = kv.list({ prefix: SETTLED_PREFIX, reverse: true, limit: SETTLED_IDS_MAX });
  const settled = [...newest].map(([, row]) => SettledRow.parse(row)).toReversed();
  const [oldest] = kv.list({ prefix: SETTLED_PREFIX, limit: 1 });
  const firstKeptNumber = oldest && SettledRow.parse(oldest[1]).number;
  const parts = { head: LedgerHead.parse(head), open, keys, settled, firstKeptNumber };
  const state = toLedgerState(parts);
  return new UsageLedger(state, nowMs);
}

function settledKey(number: number): string {
  return SETTLED_PREFIX + String(number).padStart(NUMBER_DIGITS, "0");
}

function chunksOf<Item>(items: readonly Item[]): Item[][] {
  const count = Math.ceil(items.length / KEYS_PER_CALL_MAX);
  return Array.from({ length: count }, (_, index) =>
    items.slice(index * KEYS_PER_CALL_MAX, (index + 1) * KEYS_PER_CALL_MAX),
  );
}
