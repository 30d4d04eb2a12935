import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Waiter } from "../../../src/pool/wait-queue.ts";
import { WaitQueue } from "../../../src/pool/wait-queue.ts";
import { RequestId } from "../../../src/protocol/ids.ts";
import { anOffer } from "../../support/pool-builders.ts";

function aWaiter(name: string, deadlineAtMs: number, recheckAtMs = deadlineAtMs): Waiter {
  return {
    offer: anOffer(name),
    promptTokens: 16,
    promptTokensMin: 16,
    offeredAtMs: 0,
    firstTokenDeadlineAtMs: deadlineAtMs,
    recheckAtMs,
  };
}

const namesIn = (queue: WaitQueue) => queue.inOrder().map(({ offer }) => String(offer.requestId));

describe("WaitQueue", () => {
  test("the earliest deadline comes first, and equal deadlines keep their order", () => {
    const queue = new WaitQueue();
    for (const [name, deadline] of [
      ["a", 30],
      ["b", 10],
      ["c", 20],
      ["d", 10],
    ] as const) {
      queue.add(aWaiter(name, deadline));
    }
    expect(namesIn(queue)).toEqual(["b", "d", "c", "a"]);
  });

  test("a waiter taken out of the middle leaves the others in order", () => {
    const queue = new WaitQueue();
    for (const [name, deadline] of [
      ["a", 1],
      ["b", 2],
      ["c", 3],
    ] as const) {
      queue.add(aWaiter(name, deadline));
    }
    expect(queue.remove(RequestId.parse("b"))?.firstTokenDeadlineAtMs).toBe(2);
    expect(queue.remove(RequestId.parse("b"))).toBeUndefined();
    expect(namesIn(queue)).toEqual(["a", "c"]);
    expect(queue.has(RequestId.parse("b"))).toBe(false);
  });

  test("the queue may change while it is walked", () => {
    const queue = new WaitQueue();
    for (const name of ["a", "b", "c"]) queue.add(aWaiter(name, 1));
    const seen = queue.inOrder().map(({ offer }) => queue.remove(offer.requestId));
    expect(seen).toHaveLength(3);
    expect(queue.size).toBe(0);
  });

  test("the next recheck is the earliest of all, and nothing when nobody waits", () => {
    const queue = new WaitQueue();
    expect(queue.nextRecheckAtMs).toBeUndefined();
    queue.add(aWaiter("a", 10, 9));
    queue.add(aWaiter("b", 20, 5));
    expect(queue.nextRecheckAtMs).toBe(5);
  });

  test("any mix of additions and removals equals sorting by deadline and arrival", () => {
    const step = fc.record({ isRemoval: fc.boolean(), key: fc.nat(20), deadlineAtMs: fc.nat(5) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const queue = new WaitQueue();
        let model: { name: string; deadlineAtMs: number }[] = [];
        for (const { isRemoval, key, deadlineAtMs } of steps) {
          const name = `r${key}`;
          const isKnown = model.some((each) => each.name === name);
          if (isRemoval) {
            queue.remove(RequestId.parse(name));
            model = model.filter((each) => each.name !== name);
          } else if (!isKnown) {
            queue.add(aWaiter(name, deadlineAtMs));
            model.push({ name, deadlineAtMs });
          }
          queue.checkInvariants();
        }
        const sorted = model.toSorted((a, b) => a.deadlineAtMs - b.deadlineAtMs);
        expect(namesIn(queue)).toEqual(sorted.map(({ name }) => name));
      }),
    );
  });
});
