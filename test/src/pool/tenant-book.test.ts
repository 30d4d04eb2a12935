import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { TenantBook } from "../../../src/pool/tenant-book.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import type { Attainment } from "../../../src/slo/attainment.ts";
import { CostBucket } from "../../../src/tenants/cost-bucket.ts";
import { firstTokenWithin } from "../../support/pool-builders.ts";

const A = TenantId.parse("a");
const B = TenantId.parse("b");
const C = TenantId.parse("c");
const SHARE = { weight: 2, guaranteedRatio: 0.16, band: 1 };
const TARGETS = firstTokenWithin(1_000);
const MISSED: Attainment = { kind: "missed", missed: ["ttft"], isDegraded: false };

function aBook(tenantsMax = 10): TenantBook {
  const book = new TenantBook(tenantsMax);
  book.arrives(A, SHARE, TARGETS, 0);
  return book;
}

/** How many requests of such a cost are within what a tenant is guaranteed, one after another. */
function taken(book: TenantBook, rateMsPerMs: number, nowMs: number): number {
  let count = 0;
  while (count < 1_000 && book.take(A, 100, rateMsPerMs, nowMs)) count += 1;
  return count;
}

describe("TenantBook", () => {
  test("a tenant is guaranteed in proportion to its share and to the pool", () => {
    const once = taken(aBook(), 1, 0);
    expect(once).toBeGreaterThan(10);
    expect(taken(aBook(), 2, 0)).toBe(2 * once);
    const half = new TenantBook(10);
    half.arrives(A, { ...SHARE, guaranteedRatio: 0.08 }, TARGETS, 0);
    expect(taken(half, 2, 0)).toBe(once);
  });

  test("what is used up comes back at the guaranteed rate, and it is told when", () => {
    const book = aBook();
    taken(book, 1, 0);
    const afterMs = book.inProfileAfterMs(A, 100, 1, 0);
    expect(afterMs).toBeGreaterThan(0);
    expect(book.take(A, 100, 1, afterMs / 2)).toBe(false);
    expect(book.take(A, 100, 1, afterMs)).toBe(true);
  });

  test("a cost that turns out lower lets more be within the guarantee", () => {
    const book = aBook();
    taken(book, 1, 0);
    book.correct(A, -100, 1, 0);
    expect(taken(book, 1, 0)).toBe(1);
  });

  test("who sends what nobody foresees has but a tenth of its burst, at the same rate", () => {
    const foreseen = taken(aBook(), 1, 0);
    const book = aBook();
    for (let count = 0; count < 20; count += 1) book.surprise(A, 100, 0);
    expect([...book.judgeSurprises(0)]).toEqual([A]);
    expect(taken(book, 1, 0)).toBe(Math.floor(foreseen / 10));
    // Its rate is as before: a hundred in 625 ms.
    expect(book.take(A, 100, 1, 700)).toBe(true);
    book.checkInvariants();
  });

  test("the latest share counts", () => {
    const book = aBook();
    book.arrives(A, { ...SHARE, guaranteedRatio: 0 }, TARGETS, 0);
    expect(book.shareOf(A).guaranteedRatio).toBe(0);
    expect(book.take(A, 100, 1, 0)).toBe(false);
    expect(book.inProfileAfterMs(A, 100, 1, 0)).toBe(Infinity);
  });

  test("a tenant whose requests miss is burning, and no longer so when that is long past", () => {
    const book = aBook();
    expect(book.isAnyBurning(0)).toBe(false);
    for (let index = 0; index < 1_000; index += 1) {
      book.count(A, { kind: "ended", attainment: MISSED, costMs: 1 }, 1_000);
    }
    expect(book.isAnyBurning(2_000)).toBe(true);
    expect(book.isAnyBurning(1_000_000)).toBe(false);
  });

  test("at its bound the tenant longest unheard of is forgotten", () => {
    const book = new TenantBook(2);
    for (const tenantId of [A, B, A, C]) {
      book.arrives(tenantId, SHARE, TARGETS, 0);
      book.leaves(tenantId);
      book.checkInvariants();
    }
    expect([...book.state.keys()]).toEqual([A, C]);
  });

  test("nobody with requests here is forgotten, and the book shrinks again when they leave", () => {
    const book = new TenantBook(1);
    for (const tenantId of [A, B, C]) book.arrives(tenantId, SHARE, TARGETS, 0);
    book.checkInvariants();
    expect(book.size).toBe(3);
    for (const tenantId of [B, A, C]) {
      book.leaves(tenantId);
      book.checkInvariants();
    }
    expect([...book.state.keys()]).toEqual([C]);
  });

  test("a request that leaves twice is a bug", () => {
    const book = aBook();
    book.leaves(A);
    expect(() => book.leaves(A)).toThrow(/once/);
  });

  test("a book revived from a copy of its state goes on the same, and by itself", () => {
    const joint = new CostBucket().state;
    const book = new TenantBook(10, new Map(), joint);
    book.arrives(A, SHARE, TARGETS, 0);
    book.take(A, 700, 1, 10);
    book.count(A, { kind: "admitted" }, 20);
    const revived = new TenantBook(10, copyState(book.state), copyState(joint));
    revived.checkInvariants();
    expect(taken(revived, 1, 500)).toBe(taken(book, 1, 500));
    revived.leaves(A);
    expect(() => book.leaves(A)).not.toThrow();
    expect(revived.windowOf(A).sum(300_000, 500)).toEqual(book.windowOf(A).sum(300_000, 500));
  });
});
