import { describe, expect, test } from "vitest";
import type { Lease } from "../../../src/pool/lease-book.ts";
import { LeaseBook } from "../../../src/pool/lease-book.ts";
import { LeaseId, RequestId } from "../../../src/protocol/ids.ts";
import { replicaIdOf } from "../../support/pool-builders.ts";

function aLease(name: string, expiresAtMs: number, replicaIndex = 0): Lease {
  return {
    leaseId: LeaseId.parse(name),
    requestId: RequestId.parse(name),
    replicaId: replicaIdOf(replicaIndex),
    dispatchNumber: 1,
    promptBytes: 0,
    dispatchedAtMs: 0,
    expiresAtMs,
  };
}

describe("LeaseBook", () => {
  test("a lease is taken out once", () => {
    const book = new LeaseBook(10);
    book.add(aLease("a", 100));
    expect(book.remove(LeaseId.parse("a"))?.expiresAtMs).toBe(100);
    expect(book.remove(LeaseId.parse("a"))).toBeUndefined();
  });

  test("leases expire at their instant, not before", () => {
    const book = new LeaseBook(10);
    book.add(aLease("a", 100));
    book.add(aLease("b", 200));
    expect(book.removeExpired(99)).toEqual([]);
    expect(book.removeExpired(100).map(({ leaseId }) => String(leaseId))).toEqual(["a"]);
    expect(book.nextExpiryAtMs).toBe(200);
    expect(book.size).toBe(1);
  });

  test("the leases of one replica go together and the others stay", () => {
    const book = new LeaseBook(10);
    book.add(aLease("a", 100, 0));
    book.add(aLease("b", 100, 1));
    book.add(aLease("c", 100, 0));
    expect(book.removeOf(replicaIdOf(0))).toHaveLength(2);
    expect([...book].map(({ leaseId }) => String(leaseId))).toEqual(["b"]);
  });

  test("a full book says so and takes no further lease", () => {
    const book = new LeaseBook(1);
    book.add(aLease("a", 100));
    expect(book.isFull).toBe(true);
    expect(() => book.add(aLease("b", 100))).toThrow(/room/);
  });
});
