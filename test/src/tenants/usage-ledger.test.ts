import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestId } from "../../../src/protocol/ids.ts";
import { HOLD_MS_MAX } from "../../../src/slo/answer-span.ts";
import type { UsageEnding } from "../../../src/tenants/usage-ending.ts";
import { SETTLED_ROWS_MAX, UNEXPORTED_ROWS_MAX } from "../../../src/tenants/usage-journal.ts";
import {
  LEDGER_KEYS_MAX,
  OPEN_ROWS_MAX,
  ROW_SILENCE_MS_MAX,
  SETTLED_IDS_MAX,
  UsageLedger,
} from "../../../src/tenants/usage-ledger.ts";
import type { UsageRow } from "../../../src/tenants/usage-rows.ts";
import { LedgerDisk } from "./ledger-disk.ts";

const NOW_MS = Date.parse("2026-11-20");

function aRow(name: string, wish: Partial<UsageRow> = {}): UsageRow {
  return {
    requestId: RequestId.parse(name),
    keyName: "key",
    modelId: "m",
    beganAtMs: NOW_MS,
    promptTokens: 10,
    tokensMax: 100,
    ...wish,
  };
}

/** What tokens cost here: 2 of the prompt, 1 where cached, 5 of the output. */
const pricing = {
  price: { inputPicosPerToken: 2, cachedInputPicosPerToken: 1, outputPicosPerToken: 5 },
  outputTokensMax: 90,
};
const dearer = { ...pricing, price: { ...pricing.price, outputPicosPerToken: 50 } };

const counted = (promptTokens: number, outputTokens: number): UsageEnding => ({
  kind: "counted",
  promptTokens,
  outputTokens,
  cachedTokens: 1,
});

const used = ({ state: { totals } }: UsageLedger) => [
  totals.requests,
  totals.promptTokens,
  totals.outputTokens,
  totals.estimatedRequests,
];

describe("UsageLedger", () => {
  test("counts a request as its replica did, whatever was estimated", () => {
    const ledger = new UsageLedger();
    ledger.open(aRow("a"), NOW_MS);
    expect(ledger.settle(aRow("a"), counted(12, 7), NOW_MS)).toBe(true);
    expect(ledger.state.totals).toEqual({
      requests: 1,
      promptTokens: 12,
      outputTokens: 7,
      cachedTokens: 1,
      estimatedRequests: 0,
      spentPicos: 0n,
    });
    ledger.checkInvariants();
  });

  test("charges each request by the prices it was reserved at, to the last fraction", () => {
    const ledger = new UsageLedger();
    ledger.open(aRow("a", { pricing }), NOW_MS);
    ledger.open(aRow("b", { pricing: dearer }), NOW_MS);
    expect(ledger.monthStanding(NOW_MS)).toMatchObject({ reservedPicos: 470n + 4520n });
    ledger.settle(aRow("a", { pricing }), counted(12, 7), NOW_MS);
    expect(ledger.monthStanding(NOW_MS)).toMatchObject({
      spentPicos: 11n * 2n + 1n + 7n * 5n,
      reservedPicos: 4520n,
    });
    ledger.settle(aRow("b", { pricing: dearer }), counted(12, 7), NOW_MS);
    ledger.settle(aRow("free"), counted(12, 7), NOW_MS);
    expect(ledger.state.totals.spentPicos).toBe(58n + 11n * 2n + 1n + 7n * 50n);
    ledger.checkInvariants();
  });

  test("settles what its holder left behind by its replica's record, exactly", () => {
    const ledger = new UsageLedger();
    const recorded = new Map([
      [RequestId.parse("a"), { promptTokens: 12, outputTokens: 9, cachedTokens: 3 }],
      [RequestId.parse("b"), { promptTokens: 12, outputTokens: 2, cachedTokens: 0 }],
      [RequestId.parse("elsewhere"), { promptTokens: 99, outputTokens: 99, cachedTokens: 0 }],
    ]);
    for (const name of ["a", "b", "c"]) ledger.open(aRow(name), NOW_MS);
    for (const name of ["a", "b"]) ledger.checkpoint(RequestId.parse(name), 5, NOW_MS);
    const laterMs = NOW_MS + HOLD_MS_MAX;
    expect(ledger.orphans(laterMs - 1)).toEqual([]);
    expect(ledger.orphans(laterMs).map(({ requestId }) => requestId)).toEqual(["a", "b", "c"]);
    expect(ledger.sweep(laterMs, recorded)).toBe(3);
    // "b" had more than its last replica knows of, "c" is nowhere.
    expect(used(ledger)).toEqual([3, 12 + 10 + 10, 9 + 5, 2]);
    expect(ledger.state.totals.cachedTokens).toBe(3);
    ledger.checkInvariants();
  });

  test("charges what broke off by what came of it, and what nobody knows of by its prompt", () => {
    const ledger = new UsageLedger();
    const ending = { promptTokens: 10, outputTokens: 3, cachedTokens: 0 };
    ledger.settle(aRow("a", { pricing }), { kind: "estimated", ...ending }, NOW_MS);
    ledger.settle(aRow("b", { pricing }), { kind: "unknown" }, NOW_MS);
    ledger.settle(aRow("c", { pricing }), { kind: "refunded" }, NOW_MS);
    ledger.open(aRow("d", { pricing }), NOW_MS);
    ledger.checkpoint(aRow("d").requestId, 8, NOW_MS);
    ledger.sweep(NOW_MS + HOLD_MS_MAX);
    expect(ledger.state.totals.spentPicos).toBe(35n + 20n + 60n);
    expect(ledger.monthStanding(NOW_MS).reservedPicos).toBe(0n);
  });

  test("keeps over a restart what was spent and what is reserved, at the old prices", () => {
    const disk = new LedgerDisk();
    const before = new UsageLedger();
    before.open(aRow("a", { pricing }), NOW_MS);
    before.settle(aRow("b", { pricing }), counted(10, 1), NOW_MS);
    disk.write(before.takeChanges());
    const ledger = disk.load(NOW_MS);
    expect(ledger.monthStanding(NOW_MS)).toMatchObject({ spentPicos: 24n, reservedPicos: 470n });
    ledger.sweep(NOW_MS + ROW_SILENCE_MS_MAX);
    expect(ledger.monthStanding(NOW_MS)).toMatchObject({ spentPicos: 44n, reservedPicos: 0n });
    const december = Date.parse("2026-12-01");
    expect(ledger.monthStanding(december)).toMatchObject({ spentPicos: 0n, reservedPicos: 0n });
  });

  test("counts a broken answer by what came of it, and marks it", () => {
    const ledger = new UsageLedger();
    const ending = { promptTokens: 10, outputTokens: 3, cachedTokens: 0 };
    ledger.settle(aRow("a"), { kind: "estimated", ...ending }, NOW_MS);
    ledger.settle(aRow("b"), { kind: "unknown" }, NOW_MS);
    expect(used(ledger)).toEqual([2, 20, 3, 2]);
  });

  test("counts nothing of a request that never began", () => {
    const ledger = new UsageLedger();
    ledger.open(aRow("a"), NOW_MS);
    ledger.settle(aRow("a"), { kind: "refunded" }, NOW_MS);
    expect(used(ledger)).toEqual([0, 0, 0, 0]);
    expect(ledger.monthStanding(NOW_MS)).toMatchObject({ tokens: 0, reservedTokens: 0 });
    expect(ledger.takeChanges()).toBeUndefined();
  });

  test("takes a request that is settled twice as settled once, also when its row was lost", () => {
    const ledger = new UsageLedger();
    expect(ledger.settle(aRow("a"), counted(1, 1), NOW_MS)).toBe(true);
    expect(ledger.settle(aRow("a"), counted(5, 5), NOW_MS)).toBe(false);
    expect(ledger.open(aRow("a"), NOW_MS)).toBe("settled");
    expect(used(ledger)).toEqual([1, 1, 1, 0]);
    ledger.checkInvariants();
  });

  test("settles a row whose holder is gone by what was last heard, and by its prompt if nothing was", () => {
    const ledger = new UsageLedger();
    for (const name of ["silent", "heard"]) ledger.open(aRow(name), NOW_MS);
    ledger.checkpoint(aRow("heard").requestId, 8, NOW_MS);
    ledger.checkpoint(aRow("heard").requestId, 6, NOW_MS);
    for (const name of ["silent", "heard"]) ledger.letGo(aRow(name).requestId, NOW_MS);
    expect(ledger.sweep(NOW_MS + ROW_SILENCE_MS_MAX - 1)).toBe(0);
    expect(ledger.sweep(NOW_MS + ROW_SILENCE_MS_MAX)).toBe(2);
    expect(used(ledger)).toEqual([2, 20, 8, 2]);
    expect(ledger.settle(aRow("heard"), counted(10, 9), NOW_MS)).toBe(false);
  });

  test("leaves a row alone that is held, but not for longer than any request may take", () => {
    const ledger = new UsageLedger();
    ledger.open(aRow("a"), NOW_MS);
    expect(ledger.sweep(NOW_MS + HOLD_MS_MAX - 1)).toBe(0);
    expect(ledger.sweep(NOW_MS + HOLD_MS_MAX)).toBe(1);
  });

  test("leaves a row of a former life alone for as long as somebody speaks for it", () => {
    const disk = new LedgerDisk();
    const before = new UsageLedger();
    before.open(aRow("a"), NOW_MS);
    disk.write(before.takeChanges());
    const ledger = disk.load(NOW_MS);
    ledger.checkpoint(aRow("a").requestId, 4, NOW_MS + 20_000);
    expect(ledger.sweep(NOW_MS + ROW_SILENCE_MS_MAX)).toBe(0);
    expect(ledger.settle(aRow("a"), counted(10, 5), NOW_MS + 40_000)).toBe(true);
    expect(used(ledger)).toEqual([1, 10, 5, 0]);
  });

  test("begins a month with nothing used and with what is reserved, and never goes back to one", () => {
    const ledger = new UsageLedger();
    const [november, december] = [NOW_MS, Date.parse("2026-12-01")];
    ledger.open(aRow("a"), november);
    ledger.settle(aRow("b", { pricing }), counted(30, 10), november);
    expect(ledger.monthStanding(november)).toMatchObject({ tokens: 40, reservedTokens: 100 });
    expect(ledger.monthStanding(december)).toMatchObject({ tokens: 0, reservedTokens: 100 });
    ledger.settle(aRow("a", { pricing }), counted(1, 1), december);
    ledger.settle(aRow("c"), counted(2, 2), november);
    expect(ledger.monthStanding(december)).toMatchObject({
      tokens: 6,
      reservedTokens: 0,
      spentPicos: 6n,
    });
    expect(used(ledger)).toEqual([3, 33, 13, 0]);
  });

  test("opens no more rows than its bound", () => {
    const ledger = new UsageLedger();
    for (let index = 0; index < OPEN_ROWS_MAX; index += 1) ledger.open(aRow(`r${index}`), NOW_MS);
    expect(ledger.open(aRow("one more"), NOW_MS)).toBe("full");
    expect(ledger.open(aRow("r0"), NOW_MS)).toBe("open");
    ledger.checkInvariants();
    ledger.settle(aRow("r0"), { kind: "refunded" }, NOW_MS);
    expect(ledger.open(aRow("one more"), NOW_MS)).toBe("open");
  });

  test("counts nothing twice whose id it has forgotten, unless it began later than all that it has forgotten", () => {
    const ledger = new UsageLedger();
    ledger.open(aRow("long", { beganAtMs: NOW_MS }), NOW_MS);
    for (let index = 0; index <= SETTLED_IDS_MAX; index += 1) {
      const row = aRow(`r${index}`, { beganAtMs: NOW_MS + index });
      ledger.settle(row, counted(1, 0), NOW_MS);
    }
    ledger.checkInvariants();
    expect(ledger.settle(aRow("r0"), counted(1, 0), NOW_MS)).toBe(false);
    expect(ledger.open(aRow("slow to come"), NOW_MS)).toBe("open");
    expect(ledger.settle(aRow("long"), counted(1, 0), NOW_MS)).toBe(true);
    const young = aRow("young", { beganAtMs: NOW_MS + 2 });
    expect(ledger.settle(young, counted(1, 0), NOW_MS)).toBe(true);
  });

  test("of too many keys keeps those used last apart, and loses nothing of the others' totals", () => {
    const ledger = new UsageLedger();
    const settle = (keyName: string, name: string) =>
      ledger.settle(aRow(name, { keyName }), counted(1, 2), NOW_MS);
    for (let index = 0; index < LEDGER_KEYS_MAX; index += 1) settle(`k${index}`, `r${index}`);
    settle("k0", "again");
    settle("new", "new");
    expect(ledger.state.totalsByKey.has("k1")).toBe(false);
    expect(ledger.state.totalsByKey.get("k0")?.requests).toBe(2);
    expect(ledger.state.totals.requests).toBe(LEDGER_KEYS_MAX + 2);
    ledger.checkInvariants();
  });

  test("keeps the newest of the counted requests, each under its number", () => {
    const ledger = new UsageLedger();
    const disk = new LedgerDisk();
    for (let index = 0; index < SETTLED_ROWS_MAX + 2; index += 1) {
      const row = aRow(`r${index}`, { beganAtMs: NOW_MS + index });
      ledger.settle(row, counted(1, 0), NOW_MS);
      if (index % 10_000 === 0) disk.write(ledger.takeChanges());
    }
    disk.write(ledger.takeChanges());
    expect(disk.settled.size).toBe(SETTLED_ROWS_MAX);
    expect(disk.settled.get(3)?.requestId).toBe("r2");
    expect(disk.settled.has(2)).toBe(false);
  });

  test("keeps what is not exported yet for longer, up to a bound, and then makes up for it step by step", () => {
    const { state } = new UsageLedger();
    const settledBefore = UNEXPORTED_ROWS_MAX - 1;
    const totals = { ...state.totals, requests: settledBefore };
    const keys = new Map([["key", { ...totals }]]);
    const ledger = new UsageLedger({
      ...state,
      totals,
      totalsByKey: keys,
      opened: settledBefore,
      firstKeptNumber: 1,
    });
    ledger.exportedNumber = 0;
    let count = 0;
    const dropped = () => {
      ledger.settle(aRow(`r${(count += 1)}`, { beganAtMs: NOW_MS + count }), counted(1, 0), NOW_MS);
      return ledger.takeChanges()?.droppedNumbers ?? [];
    };
    expect(dropped()).toEqual([]);
    // One more than the bound: the oldest is given up, and what was exported makes no difference.
    expect(dropped()).toEqual([1]);
    ledger.exportedNumber = 1_500;
    expect(dropped()).toEqual(Array.from({ length: 1_001 }, (_, index) => index + 2));
    expect(dropped()).toEqual(Array.from({ length: 498 }, (_, index) => index + 1_003));
    expect(dropped()).toEqual([]);
    ledger.exportedNumber = Infinity;
    while (dropped().length === 1_001);
    expect(ledger.state.firstKeptNumber).toBe(settledBefore + count - SETTLED_ROWS_MAX + 1);
    ledger.checkInvariants();
  });
});

const NAMES = 6;
const index = fc.nat(NAMES - 1);
const step = fc.oneof(
  fc.record({ kind: fc.constant("open" as const), index }),
  fc.record({
    kind: fc.constant("settle" as const),
    index,
    ending: fc.oneof(
      fc.constant<UsageEnding>({ kind: "refunded" }),
      fc.constant<UsageEnding>({ kind: "unknown" }),
      fc.nat(50).map((tokens) => counted(tokens, tokens + 1)),
    ),
  }),
  fc.record({ kind: fc.constant("checkpoint" as const), index, tokens: fc.nat(50) }),
  fc.record({ kind: fc.constant("letGo" as const), index }),
  fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(2 * ROW_SILENCE_MS_MAX) }),
  fc.constant({ kind: "sweep" as const }),
  fc.constant({ kind: "save" as const }),
  fc.constant({ kind: "crash" as const }),
);

describe("UsageLedger over crashes", () => {
  test("counts every request at most once, loses nothing that was saved, and leaves no row open", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const disk = new LedgerDisk();
        let nowMs = NOW_MS;
        let ledger = disk.load(nowMs);
        /** Requests that were told to be settled since the last save, and before it. */
        let told = new Set<string>();
        const kept = new Set<string>();
        const repeated: string[] = [];
        const save = () => {
          disk.write(ledger.takeChanges());
          for (const name of told) kept.add(name);
          told = new Set();
        };
        for (const one of steps) {
          const place = "index" in one ? one.index : 0;
          // Some are free, and prices differ from one to the next.
          const prices = [{}, { pricing }, { pricing: dearer }][place % 3];
          const row = aRow(`r${place}`, prices);
          if (one.kind === "open") ledger.open(row, nowMs);
          if (one.kind === "settle") {
            const isFirst = ledger.settle(row, one.ending, nowMs);
            // Whoever was refunded and forgotten with it may be told of again.
            if (isFirst && one.ending.kind !== "refunded") {
              if (kept.has(row.requestId)) repeated.push(row.requestId);
              told.add(row.requestId);
            }
          }
          if (one.kind === "checkpoint") ledger.checkpoint(row.requestId, one.tokens, nowMs);
          if (one.kind === "letGo") ledger.letGo(row.requestId, nowMs);
          if (one.kind === "pass") nowMs += one.ms;
          if (one.kind === "sweep") ledger.sweep(nowMs);
          if (one.kind === "save") save();
          if (one.kind === "crash") {
            told = new Set();
            ledger = disk.load(nowMs);
          }
          ledger.checkInvariants();
        }
        nowMs += HOLD_MS_MAX;
        ledger.sweep(nowMs);
        save();
        const after = disk.load(nowMs);
        after.checkInvariants();
        const rows = [...disk.settled.values()];
        const ids = rows.map(({ requestId }) => requestId);
        expect(repeated).toEqual([]);
        expect(new Set(ids).size).toBe(ids.length);
        expect(ids).toEqual(expect.arrayContaining([...kept]));
        expect([disk.open.size, after.state.open.size]).toEqual([0, 0]);
        const sum = rows.reduce((total, { outputTokens }) => total + outputTokens, 0);
        const spentPicos = rows.reduce((total, { costPicos }) => total + costPicos, 0n);
        expect(after.state.totals).toMatchObject({
          requests: rows.length,
          outputTokens: sum,
          spentPicos,
        });
        expect(after.monthStanding(nowMs).spentPicos).toBe(spentPicos);
      }),
      { numRuns: 500 },
    );
  });
});
