import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import type { Lease } from "../../../src/pool/lease-book.ts";
import { LeaseBook } from "../../../src/pool/lease-book.ts";
import { LeaseId } from "../../../src/protocol/ids.ts";
import { replicaIdOf } from "../../support/replica-builders.ts";
import { aLease } from "./leases.ts";

const until = (name: string, expiresAtMs: number, replicaIndex = 0): Lease =>
  aLease(name, { expiresAtMs, replicaId: replicaIdOf(replicaIndex) });
const namesOf = (leases: Iterable<Lease>) => [...leases].map(({ leaseId }) => String(leaseId));

describe("LeaseBook", () => {
  test("a lease is taken out once", () => {
    const book = new LeaseBook(10);
    book.add(until("a", 100));
    expect(book.remove(LeaseId.parse("a"))?.expiresAtMs).toBe(100);
    expect(book.remove(LeaseId.parse("a"))).toBeUndefined();
  });

  test("leases expire at their instant, not before", () => {
    const book = new LeaseBook(10);
    book.add(until("a", 100));
    book.add(until("b", 200));
    expect(book.removeExpired(99)).toEqual([]);
    expect(namesOf(book.removeExpired(100))).toEqual(["a"]);
    expect(book.nextExpiryAtMs).toBe(200);
    expect(book.size).toBe(1);
  });

  test("the leases of one replica are lost together, yet stay until they are settled", () => {
    const book = new LeaseBook(10);
    for (const [name, replica] of [
      ["a", 0],
      ["b", 1],
      ["c", 0],
    ] as const) {
      book.add(until(name, 100, replica));
    }
    book.loseAllOf(replicaIdOf(0));
    expect([...book].map(({ isLost }) => isLost)).toEqual([true, false, true]);
    expect(book.size).toBe(3);
  });

  test("a full book says so and takes no further lease", () => {
    const book = new LeaseBook(1);
    book.add(until("a", 100));
    expect(book.isFull).toBe(true);
    expect(() => book.add(until("b", 100))).toThrow(/room/);
    book.checkInvariants();
  });

  test("a book revived from a copy of its state goes on the same, and by itself", () => {
    const book = new LeaseBook(10);
    for (const [name, atMs] of [
      ["a", 100],
      ["b", 200],
      ["c", 300],
    ] as const) {
      book.add(until(name, atMs));
    }
    const revived = new LeaseBook(10, copyState(book.state));
    expect(namesOf(revived.removeExpired(200))).toEqual(["a", "b"]);
    expect(namesOf(book)).toEqual(["a", "b", "c"]);
    expect(namesOf(book.removeExpired(200))).toEqual(["a", "b"]);
    expect(revived.nextExpiryAtMs).toBe(book.nextExpiryAtMs);
  });
});
