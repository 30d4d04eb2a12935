import { describe, expect, test } from "vitest";
import { DeadlineOrder } from "../../../simulator/policies/deadline-order.ts";
import type { QueueOrder } from "../../../simulator/policies/gateway-queue.ts";
import { GatewayQueue } from "../../../simulator/policies/gateway-queue.ts";
import { MostViolatedOrder } from "../../../simulator/policies/most-violated-order.ts";
import type { PolicyRequest } from "../../../simulator/policies/policy.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { replica, request } from "./policy-fixtures.ts";

const limit = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });
const within = (ttftMs: number) => ({ ttft: limit(ttftMs), tpot: limit(10) });

/** In which order those who wait are sent, to replicas that take all of them. */
function sentBy(order: QueueOrder, waiting: readonly PolicyRequest[], nowMs = 0): string[] {
  const left = [...waiting];
  const sent: string[] = [];
  while (left.length > 0) {
    const first = order.first(left, nowMs);
    if (first === undefined) break;
    left.splice(left.indexOf(first), 1);
    sent.push(first.requestId);
  }
  return sent;
}

describe("GatewayQueue", () => {
  test("keeps requests waiting while every replica has as many as it may, and then fills the emptiest", () => {
    const policy = new GatewayQueue(new DeadlineOrder(), { outstandingMax: 3 });
    const moment = { nowMs: 0, random: seededRandom(1) };
    const full = [replica(0, { outstanding: 3 }), replica(1, { outstanding: 3 })];
    expect(policy.choose(request(), full)).toEqual({ kind: "wait" });
    expect(policy.next([request()], full, moment)).toBeUndefined();
    const free = [...full, replica(2, { outstanding: 2 }), replica(3, { outstanding: 1 })];
    expect(policy.next([request()], free, moment)).toMatchObject({ replicaIndex: 3 });
  });
});

test.each([
  ["DeadlineOrder", new DeadlineOrder()],
  ["MostViolatedOrder", new MostViolatedOrder()],
])("%s names nobody where nobody waits", (_, order) => {
  expect(order.first([], 0)).toBeUndefined();
});

describe("DeadlineOrder", () => {
  test("sends what is due first within a tenant", () => {
    const order = new DeadlineOrder();
    const waiting = [
      request({ requestId: "late", targets: within(900) }),
      request({ requestId: "soon", targets: within(100) }),
      request({ requestId: "old", targets: within(800), arrivedAtMs: -750 }),
    ];
    expect(sentBy(order, waiting)).toEqual(["old", "soon", "late"]);
  });

  test("serves tenants by tokens, in turn: ten short ones weigh as much as one long one", () => {
    const order = new DeadlineOrder();
    const long = Array.from({ length: 4 }, () =>
      request({ tenantId: "long", promptTokens: 5_120 }),
    );
    const short = Array.from({ length: 40 }, () =>
      request({ tenantId: "short", promptTokens: 512 }),
    );
    const isLong = new Set<string>(long.map(({ requestId }) => requestId));
    const sent = sentBy(order, [...long, ...short]);
    expect(sent).toHaveLength(44);
    const longBy = (count: number) => sent.slice(0, count).filter((id) => isLong.has(id)).length;
    // After 22 requests 20 short ones have had 20 quanta, as have 2 long ones.
    expect(Math.abs(longBy(22) - 2)).toBeLessThanOrEqual(1);
  });

  test("sends what is long overdue all the same", () => {
    const order = new DeadlineOrder();
    const hopeless = request({ requestId: "x", targets: within(1), arrivedAtMs: -60_000 });
    expect(sentBy(order, [hopeless])).toEqual(["x"]);
  });
});

describe("MostViolatedOrder", () => {
  test("sends first what is expected to be latest beyond its target, of each size the oldest", () => {
    const order = new MostViolatedOrder();
    const small = { promptTokens: 100 };
    const waiting = [
      request({ requestId: "small 1", targets: within(500), ...small, arrivedAtMs: -300 }),
      request({ requestId: "small 2", targets: within(500), ...small, arrivedAtMs: -100 }),
      request({ requestId: "large", targets: within(5_000), arrivedAtMs: -3_000 }),
    ];
    expect(sentBy(order, waiting)).toEqual(["small 1", "small 2", "large"]);
    // Once it is known that large ones take long, it is the large one that will be latest.
    const answered = { isGood: false, firstTokenAfterMs: 9_000, tpotMs: 10, outputTokens: 1 };
    order.ended(request({ targets: within(5_000) }), answered);
    expect(sentBy(order, waiting)[0]).toBe("large");
  });
});
