import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WaitQueue } from "../../../src/admission/wait-queue.ts";
import { copyState } from "../../../src/base/plain-state.ts";
import { seededRandom } from "../../../src/base/random.ts";
import type { FairAccount } from "../../../src/admission/waiting-request.ts";
import { RequestId } from "../../../src/protocol/ids.ts";
import { NaiveQueue } from "./naive-queue.ts";
import { waiting } from "./waiting.ts";

/** Names of the first requests in their order. */
const order = (queue: WaitQueue, nowMs = 0, max = 100) =>
  queue.candidates(nowMs, max).map(({ requestId }) => String(requestId));

function queueWith(...requests: Parameters<typeof waiting>[]): WaitQueue {
  const queue = new WaitQueue();
  for (const [name, changes] of requests) queue.add(waiting(name, changes), 0);
  return queue;
}

const accountOf = (tenantId: string, weight = 1) => waiting("any", { tenantId, weight });

describe("order", () => {
  test("those in profile come before all excess, lower bands before higher", () => {
    const queue = queueWith(
      ["excess-0", { tenantId: "a", isInProfile: false }],
      ["profile-3", { tenantId: "b", band: 3 }],
      ["excess-1", { tenantId: "c", isInProfile: false, band: 1 }],
      ["profile-1", { tenantId: "d", band: 1 }],
    );
    expect(order(queue)).toEqual(["profile-1", "profile-3", "excess-0", "excess-1"]);
  });

  test("a tenant's own requests go by deadline", () => {
    const queue = queueWith(
      ["late", { deadlineAtMs: 3_000 }],
      ["soon", { deadlineAtMs: 500 }],
      ["middle", { deadlineAtMs: 2_000 }],
    );
    expect(order(queue)).toEqual(["soon", "middle", "late"]);
  });

  test("a request without a deadline is not passed for ever by its tenant's urgent ones", () => {
    const queue = queueWith(["patient", { deadlineAtMs: Infinity, dropAtMs: Infinity }]);
    queue.add(waiting("before", { sinceMs: 59_000, deadlineAtMs: 59_999 }), 59_000);
    queue.add(waiting("after", { sinceMs: 59_500, deadlineAtMs: 60_001 }), 59_500);
    expect(order(queue, 59_500)).toEqual(["before", "patient", "after"]);
  });

  test("a request behind its tenant's first stands where the first one's cost will have put it", () => {
    const queue = queueWith(
      ["a1", { costMs: 30 }],
      ["a2", { costMs: 30, deadlineAtMs: 2_000 }],
      ["b1", { tenantId: "b", costMs: 20 }],
      ["b2", { tenantId: "b", costMs: 50, deadlineAtMs: 2_000 }],
      ["b3", { tenantId: "b", costMs: 1, deadlineAtMs: 3_000 }],
    );
    expect(order(queue)).toEqual(["a1", "b1", "b2", "a2", "b3"]);
  });

  test("of one tenant no more than four are candidates", () => {
    const queue = queueWith(["other", { tenantId: "b", costMs: 1_000 }]);
    for (let index = 0; index < 10; index++) {
      queue.add(waiting(`r${index}`, { deadlineAtMs: index }), 0);
    }
    expect(order(queue)).toEqual(["other", "r0", "r1", "r2", "r3"]);
    expect(order(queue, 0, 3)).toEqual(["other", "r0", "r1"]);
    expect(order(queue, 0, 0)).toEqual([]);
  });

  test("a request gains a band for every two seconds that it waits", () => {
    const queue = queueWith(["low", { band: 2, deadlineAtMs: 500 }]);
    queue.add(waiting("high", { band: 1, sinceMs: 1_500, deadlineAtMs: 5_000 }), 1_500);
    expect(order(queue, 1_999)).toEqual(["high", "low"]);
    expect(order(queue, 2_000)).toEqual(["low", "high"]);
    expect(order(queue, 3_500)).toEqual(["high", "low"]);
    expect(order(queue, 4_000)).toEqual(["low", "high"]);
  });

  test("counts those who wait by the band that they have gained", () => {
    const queue = queueWith(["low", { band: 2 }], ["urgent", {}]);
    expect(queue.countsByBand()).toEqual([1, 0, 1, 0, 0, 0, 0, 0]);
    order(queue, 2_000);
    expect(queue.countsByBand()).toEqual([1, 1, 0, 0, 0, 0, 0, 0]);
  });

  test("a request that waited before has the bands that it gained then", () => {
    const queue = queueWith(
      ["new", { band: 1, deadlineAtMs: 2_000 }],
      ["back", { band: 2, sinceMs: -3_000, deadlineAtMs: 1_000 }],
    );
    expect(order(queue, 0)).toEqual(["back", "new"]);
    queue.add(waiting("urgent", { deadlineAtMs: 3_000 }), 0);
    expect(order(queue, 999)).toEqual(["urgent", "back", "new"]);
    expect(order(queue, 1_000)).toEqual(["back", "urgent", "new"]);
  });

  test("a band that a request comes to by waiting owes its tenant nothing for the time before", () => {
    const queue = new WaitQueue();
    const urgent = { tenantId: "b", deadlineAtMs: 9_000 };
    for (let index = 0; index < 6; index++) queue.add(waiting(`b${index}`, urgent), 0);
    for (let index = 0; index < 3; index++) {
      queue.add(waiting(`a${index}`, { band: 1, deadlineAtMs: 9_000 }), 0);
    }
    for (const name of ["b0", "b1"]) {
      queue.settle(queue.take(RequestId.parse(name), 10), { chargedMs: 10, actualMs: 10 });
    }
    expect(order(queue, 2_000)).toEqual(["b2", "a0", "b3", "a1", "b4", "a2", "b5"]);
  });

  test("a priority above the last band is that of the last", () => {
    const queue = queueWith(["far", { band: 1_000 }], ["last", { tenantId: "b", band: 7 }]);
    expect(order(queue)).toEqual(["far", "last"]);
    queue.charge(waiting("x", { band: 99 }), 10);
    expect(order(queue)).toEqual(["last", "far"]);
  });
});

describe("switches", () => {
  test("without fairness the earliest deadline of all tenants comes first", () => {
    const queue = new WaitQueue({ isFair: false });
    queue.charge(waiting("x"), 1_000);
    for (let index = 0; index < 6; index++) {
      queue.add(waiting(`a${index}`, { deadlineAtMs: 10 + index }), 0);
    }
    queue.add(waiting("b", { tenantId: "b", deadlineAtMs: 12.5 }), 0);
    expect(order(queue)).toEqual(["a0", "a1", "a2", "b", "a3", "a4", "a5"]);
    queue.take(RequestId.parse("b"), 10);
    queue.checkInvariants();
  });

  test("without ageing nobody gains a band", () => {
    const queue = new WaitQueue({ ages: false });
    queue.add(waiting("low", { band: 1 }), 0);
    queue.add(waiting("old", { band: 1, sinceMs: -9_000 }), 0);
    queue.add(waiting("high", { tenantId: "b" }), 60_000);
    expect(order(queue, 60_000)).toEqual(["high", "low", "old"]);
    queue.checkInvariants();
  });
});

describe("drops", () => {
  test("those that are due are taken out, the first due first", () => {
    const queue = queueWith(
      ["third", { dropAtMs: 300 }],
      ["first", { dropAtMs: 100, isInProfile: false }],
      ["second", { dropAtMs: 200, band: 3 }],
    );
    expect(queue.nextDropAtMs).toBe(100);
    expect(queue.takeDue(99)).toEqual([]);
    expect(queue.takeDue(200).map(({ requestId }) => requestId)).toEqual(["first", "second"]);
    expect(queue.nextDropAtMs).toBe(300);
    expect(order(queue, 200)).toEqual(["third"]);
    queue.checkInvariants();
  });

  test("who leaves is not dropped any more, and is told once", () => {
    const queue = queueWith(["one", {}]);
    expect(queue.remove(RequestId.parse("one"))?.costMs).toBe(10);
    expect(queue.remove(RequestId.parse("one"))).toBeUndefined();
    expect(queue.nextDropAtMs).toBeUndefined();
    expect(queue.size).toBe(0);
  });
});

test("a full queue makes room as the room says, and takes nobody in for whom there is none", () => {
  const queue = new WaitQueue({ requestsMax: 2 });
  queue.add(waiting("excess", { tenantId: "b", isInProfile: false }), 0);
  queue.add(waiting("one"), 0);
  const room = queue.roomFor(waiting("two"));
  expect(room).toEqual({ kind: "displace", requestId: "excess" });
  expect(() => queue.add(waiting("two"), 0)).toThrow("there is room");
  queue.remove(RequestId.parse("excess"));
  queue.add(waiting("two"), 0);
  expect(queue.roomFor(waiting("three"))).toEqual({ kind: "full" });
  queue.checkInvariants();
});

test("what is charged for a request is charged in the band that it had come to", () => {
  const queue = queueWith(["one", { band: 3 }]);
  queue.candidates(4_000, 1);
  const account = queue.take(RequestId.parse("one"), 100);
  expect(account).toEqual({ tenantId: "a", weight: 1, band: 1, isInProfile: true });
  queue.settle(account, { chargedMs: 100, actualMs: 100 });
  queue.add(waiting("b", { tenantId: "b", band: 1, sinceMs: 4_000 }), 4_000);
  queue.add(waiting("a", { band: 1, sinceMs: 4_000 }), 4_000);
  queue.charge({ ...account, tenantId: waiting("x", { tenantId: "b" }).tenantId }, 1);
  expect(order(queue, 4_000)).toEqual(["a", "b"]);
  queue.charge(account, 5);
  expect(order(queue, 4_000)).toEqual(["b", "a"]);
});

describe("a lead", () => {
  test("is what a tenant was charged beyond the one that waits and has had least", () => {
    const queue = queueWith(["behind", { tenantId: "b" }]);
    queue.charge(accountOf("a", 2), 80);
    expect(queue.leadMsOf(accountOf("a", 2))).toBe(80);
    expect(queue.leadMsOf(accountOf("b"))).toBe(0);
    queue.charge(accountOf("b"), 15);
    // By weight: the other has had 15 ms for each part of its weight.
    expect(queue.leadMsOf(accountOf("a", 2))).toBe(80 - 2 * 15);
  });

  test("is over nobody where nobody waits, or only those of another rank", () => {
    const queue = queueWith(["urgent", { tenantId: "b", band: 0 }]);
    const lower = { ...accountOf("a"), band: 1 };
    queue.charge(lower, 80);
    expect(queue.leadMsOf(lower)).toBe(0);
    expect(new WaitQueue().leadMsOf(accountOf("a"))).toBe(0);
  });
});

describe("fairness", () => {
  test("a tenant whose last request is served is charged for it and not lifted as well", () => {
    const queue = queueWith(["a1", {}], ["b1", { tenantId: "b" }], ["b2", { tenantId: "b" }]);
    queue.charge(waiting("x", { tenantId: "b" }), 100);
    queue.take(RequestId.parse("a1"), 10);
    queue.add(waiting("a2"), 0);
    queue.take(RequestId.parse("b1"), 5);
    expect(order(queue)).toEqual(["a2", "b2"]);
  });

  test("a newcomer does not wait until others have used up what they were charged too much", () => {
    const queue = queueWith(["a1", {}]);
    const served: string[] = [];
    let running = queue.take(RequestId.parse("a1"), 1_000);
    for (let index = 2; index < 20; index++) {
      queue.add(waiting(`a${index}`), 0);
      if (index === 5) queue.add(waiting("newcomer", { tenantId: "b" }), 0);
      queue.settle(running, { chargedMs: 1_000, actualMs: 1 });
      const [next] = queue.candidates(0, 1);
      if (next === undefined) break;
      served.push(next.requestId);
      running = queue.take(next.requestId, 1_000);
    }
    expect(served.indexOf("newcomer")).toBeLessThanOrEqual(4);
    expect(served).toContain("newcomer");
  });

  test("two tenants that always wait get cost by weight, however their requests differ", () => {
    for (let seed = 0; seed < 5; seed++) {
      const random = seededRandom(seed);
      const queue = new WaitQueue();
      const served = new Map([
        ["a", 0],
        ["b", 0],
      ]);
      const add = (tenantId: string, index: number) => {
        // b's requests are few and large; the estimate of either is off by up to a half.
        const costMs = (tenantId === "a" ? 20 : 200) * (0.5 + random());
        const weight = tenantId === "a" ? 2 : 1;
        const endless = { deadlineAtMs: index, dropAtMs: Infinity };
        queue.add(waiting(`${tenantId}${index}`, { tenantId, weight, costMs, ...endless }), 0);
      };
      for (let index = 0; index < 5; index++)
        for (const tenantId of ["a", "b"]) add(tenantId, index);
      for (let index = 5; index < 5_000; index++) {
        const [next] = queue.candidates(0, 1);
        if (next === undefined) break;
        const account = queue.take(next.requestId, next.costMs);
        const costMs = next.costMs * (0.5 + random());
        queue.settle(account, { chargedMs: next.costMs, actualMs: costMs });
        served.set(next.tenantId, (served.get(next.tenantId) ?? 0) + costMs);
        add(next.tenantId, index);
      }
      queue.checkInvariants();
      const ratio = (served.get("a") ?? 0) / (served.get("b") ?? 1);
      expect(ratio).toBeGreaterThan(1.9);
      expect(ratio).toBeLessThan(2.1);
    }
  });

  test("under an endless stream of urgent requests of many tenants no other waits for ever", () => {
    const queue = new WaitQueue();
    const patient = { deadlineAtMs: Infinity, dropAtMs: Infinity };
    for (let band = 0; band < 8; band++) {
      queue.add(waiting(`low-${band}`, { tenantId: `low-${band}`, band, ...patient }), 0);
    }
    const servedAtMs = new Map<string, number>();
    for (let nowMs = 0; nowMs < 20_000; nowMs += 10) {
      // Two come for each that is served.
      for (const half of [0, 1]) {
        const tenantId = `urgent-${(nowMs / 10) % 7}`;
        queue.add(waiting(`u${nowMs}-${half}`, { tenantId, sinceMs: nowMs, ...patient }), nowMs);
      }
      const [next] = queue.candidates(nowMs, 1);
      if (next === undefined) break;
      queue.take(next.requestId, next.costMs);
      if (next.requestId.startsWith("low")) servedAtMs.set(next.requestId, nowMs);
    }
    expect(servedAtMs.size).toBe(8);
    for (let band = 0; band < 8; band++) {
      // In the lowest band its tenant is one of eight that take turns.
      const waitedMs = (servedAtMs.get(`low-${band}`) ?? Infinity) - 2_000 * band;
      expect(waitedMs).toBeGreaterThanOrEqual(0);
      expect(waitedMs).toBeLessThanOrEqual(100);
    }
  });
});

const STEPS_MAX = 150;
const costs = seededRandom(7);
const steps = fc.array(
  fc.record({
    kind: fc.constantFrom(
      "add",
      "add",
      "add",
      "add",
      "take",
      "take",
      "remove",
      "wait",
      "charge",
      "correct",
      "settle",
      "copy",
    ),
    tenantId: fc.constantFrom("a", "b", "c", "d"),
    band: fc.constantFrom(0, 0, 0, 1, 7),
    isInProfile: fc.constantFrom(true, true, true, false),
    amount: fc.integer({ min: 0, max: 40 }),
  }),
  { maxLength: STEPS_MAX, size: "max" },
);

/** No two sums of these are the same, so ties never decide. */
const COSTS_MS = Array.from({ length: STEPS_MAX }, () => 1 + 10 * costs());
const WEIGHTS: Readonly<Record<string, number>> = { a: 1, b: 2, c: 0.5, d: 3 };

test("the order is that of a queue which sorts everything at every call, in any copy too", () => {
  fc.assert(
    fc.property(steps, (sequence) => {
      let queue = new WaitQueue();
      const naive = new NaiveQueue();
      const running: { readonly account: FairAccount; chargedMs: number }[] = [];
      let nowMs = 0;
      for (const [index, { kind, amount, ...account }] of sequence.entries()) {
        const costMs = COSTS_MS[index] ?? 1;
        const weight = WEIGHTS[account.tenantId] ?? 1;
        const deadlineAtMs = 1_000 * amount + index / 1_000;
        const request = waiting(`r${index}`, {
          ...account,
          weight,
          costMs,
          deadlineAtMs,
          sinceMs: nowMs,
        });
        if (kind === "add") {
          queue.add(request, nowMs);
          naive.add(request);
        } else if (kind === "take") {
          const next = queue.candidates(nowMs, 3).at(-1);
          naive.order(nowMs);
          if (next === undefined) continue;
          const charged = queue.take(next.requestId, costMs);
          naive.take(next.requestId, costMs);
          running.push({ account: charged, chargedMs: costMs });
        } else if (kind === "remove") {
          const name = RequestId.parse(`r${amount}`);
          queue.remove(name);
          naive.remove(name);
        } else if (kind === "charge") {
          queue.charge(request, costMs);
          naive.charge(request, costMs);
          running.push({ account: request, chargedMs: costMs });
        } else if (kind === "correct") {
          const charged = running[amount % running.length];
          if (charged === undefined) continue;
          queue.correct(charged.account, costMs);
          naive.correct(charged.account, costMs);
          charged.chargedMs += costMs;
        } else if (kind === "settle") {
          const [ended] = running.splice(amount % running.length, 1);
          if (ended === undefined) continue;
          const cost = { chargedMs: ended.chargedMs, actualMs: costMs };
          queue.settle(ended.account, cost);
          naive.settle(ended.account, cost);
        } else if (kind === "copy") {
          queue = new WaitQueue({}, copyState(queue.state));
        } else {
          nowMs += 100 * amount;
        }
        queue.checkInvariants();
        const expected = naive.order(nowMs);
        expect(order(queue, nowMs)).toEqual(expected);
      }
    }),
    // Shrinking sequences as long as these takes minutes; the seed says enough.
    { numRuns: 60, endOnFailure: true },
  );
});
