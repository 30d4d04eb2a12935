import { describe, expect, test } from "vitest";
import { DeadlineQueue } from "../../../simulator/policies/deadline-queue.ts";
import { MostViolatedFirst } from "../../../simulator/policies/most-violated-first.ts";
import type { Policy, PolicyRequest } from "../../../simulator/policies/policy.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { replica, request } from "./policy-fixtures.ts";

const limit = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const within = (ttftMs: number) => ({ ttft: limit(ttftMs), tpot: limit(10) });

/** The order in which a policy sends those who wait, to replicas that take all of them. */
function orderOf(policy: Policy, waiting: readonly PolicyRequest[], nowMs = 0): string[] {
  const left = [...waiting];
  const order: string[] = [];
  while (left.length > 0) {
    const next = policy.next?.(left, [replica(0)], { nowMs, random: seededRandom(1) });
    if (next === undefined) break;
    left.splice(left.indexOf(next.request), 1);
    order.push(next.request.requestId);
  }
  return order;
}

describe.each([
  ["DeadlineQueue", new DeadlineQueue({ outstandingMax: 2 })],
  ["MostViolatedFirst", new MostViolatedFirst({ outstandingMax: 2 })],
])("%s", (_, policy) => {
  test("keeps requests waiting while every replica has as many as it may", () => {
    const moment = { nowMs: 0, random: seededRandom(1) };
    const full = [replica(0, { outstanding: 2 }), replica(1, { outstanding: 2 })];
    expect(policy.choose(request(), full)).toEqual({ kind: "wait" });
    expect(policy.next([request()], full, moment)).toBeUndefined();
    const free = [...full, replica(2, { outstanding: 1 })];
    expect(policy.next([request()], free, moment)).toMatchObject({ replicaIndex: 2 });
  });
});

describe("DeadlineQueue", () => {
  test("sends what is due first within a tenant", () => {
    const policy = new DeadlineQueue({ outstandingMax: 9 });
    const waiting = [
      request({ requestId: "late", targets: within(900) }),
      request({ requestId: "soon", targets: within(100) }),
      request({ requestId: "old", targets: within(800), arrivedAtMs: -750 }),
    ];
    expect(orderOf(policy, waiting)).toEqual(["old", "soon", "late"]);
  });

  test("serves tenants by tokens, in turn: ten short ones weigh as much as one long one", () => {
    const policy = new DeadlineQueue({ outstandingMax: 9 });
    const long = Array.from({ length: 4 }, () =>
      request({ tenantId: "long", promptTokens: 5_120 }),
    );
    const short = Array.from({ length: 40 }, () =>
      request({ tenantId: "short", promptTokens: 512 }),
    );
    const isLong = new Set(long.map(({ requestId }) => requestId));
    const order = orderOf(policy, [...long, ...short]);
    expect(order).toHaveLength(44);
    const longBy = (count: number) => order.slice(0, count).filter((id) => isLong.has(id)).length;
    // After 22 requests 20 short ones have had 20 quanta, as have 2 long ones.
    expect(Math.abs(longBy(22) - 2)).toBeLessThanOrEqual(1);
  });

  test("sends what is long overdue all the same", () => {
    const policy = new DeadlineQueue({ outstandingMax: 9 });
    const hopeless = request({ requestId: "x", targets: within(1), arrivedAtMs: -60_000 });
    expect(orderOf(policy, [hopeless])).toEqual(["x"]);
  });
});

describe("MostViolatedFirst", () => {
  test("sends first what is expected to be latest beyond its target, of each size the oldest", () => {
    const policy = new MostViolatedFirst({ outstandingMax: 9 });
    const small = { promptTokens: 100 };
    const waiting = [
      request({ requestId: "small 1", targets: within(500), ...small, arrivedAtMs: -300 }),
      request({ requestId: "small 2", targets: within(500), ...small, arrivedAtMs: -100 }),
      request({ requestId: "large", targets: within(5_000), arrivedAtMs: -3_000 }),
    ];
    expect(orderOf(policy, waiting)).toEqual(["small 1", "small 2", "large"]);
    // Once it is known that large ones take long, it is the large one that will be latest.
    const answered = { isGood: false, firstTokenAfterMs: 9_000, tpotMs: 10, outputTokens: 1 };
    policy.ended(request({ targets: within(5_000) }), answered);
    expect(orderOf(policy, waiting)[0]).toBe("large");
  });
});
