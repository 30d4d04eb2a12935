import { describe, expect, test } from "vitest";
import type { Levels } from "../../../src/tenants/levels.ts";
import { NO_LEVELS } from "../../../src/tenants/levels.ts";
import type { LeaseRequest } from "../../../src/tenants/shard-allotments.ts";
import { LEASE_MS, ShardAllotments } from "../../../src/tenants/shard-allotments.ts";
import { ShardLease } from "../../../src/tenants/shard-lease.ts";

const LIMITS = { concurrencyMax: 100, tokensPerMinuteMax: 1_000, tokensPerMonthMax: 10_000 };
const STANDING = { limitsMax: LIMITS, shardCount: 4, ownTaken: NO_LEVELS, month: 5 };

const levels = (wish: Partial<Levels>): Levels => ({ ...NO_LEVELS, ...wish });

function aRequest(wish: Partial<LeaseRequest> = {}): LeaseRequest {
  return {
    shard: 1,
    life: 1,
    sequence: 1,
    month: 5,
    kept: NO_LEVELS,
    wants: NO_LEVELS,
    least: NO_LEVELS,
    isBusy: false,
    ...wish,
  };
}

describe("ShardAllotments", () => {
  test("give what is kept and lacking, and a part of the rest ahead to who is busy", () => {
    const allotments = new ShardAllotments();
    const kept = levels({ concurrency: 4, tokens: 100, monthTokens: 500 });
    const wants = levels({ concurrency: 16, tokens: 100, monthTokens: 1_000 });
    const busy = allotments.renew(aRequest({ kept, wants, isBusy: true }), STANDING, 0);
    expect(busy).toEqual({
      // An eighth of what is left; of the month 1 % at most.
      allotted: levels({ concurrency: 20 + 10, tokens: 200 + 100, monthTokens: 1_500 + 100 }),
      free: levels({ concurrency: 70, tokens: 700, monthTokens: 8_400 }),
    });
    const idle = allotments.renew(aRequest({ shard: 2, wants }), STANDING, 0);
    expect(idle?.allotted).toEqual(wants);
    expect(allotments.own(LIMITS, 5, 0)).toEqual({
      concurrencyMax: 54,
      tokensPerMinuteMax: 600,
      tokensPerMonthMax: 7_400,
    });
  });

  test("leave to others what is too little for anybody who waits", () => {
    const allotments = new ShardAllotments();
    const request = aRequest({
      wants: levels({ concurrency: 2, tokens: 2_400 }),
      least: levels({ concurrency: 1, tokens: 1_001 }),
    });
    expect(allotments.renew(request, STANDING, 0)?.allotted).toEqual(levels({ concurrency: 2 }));
    const smaller = { ...request, sequence: 2, least: levels({ tokens: 1_000 }) };
    expect(allotments.renew(smaller, STANDING, 0)?.allotted.tokens).toBe(1_000);
  });

  test("heed no request that a later one, or a later life, has overtaken", () => {
    const allotments = new ShardAllotments();
    expect(allotments.renew(aRequest({ sequence: 2 }), STANDING, 0)).toBeDefined();
    expect(allotments.renew(aRequest({ sequence: 2 }), STANDING, 0)).toBeUndefined();
    expect(allotments.renew(aRequest({ sequence: 1 }), STANDING, 0)).toBeUndefined();
    expect(allotments.renew(aRequest({ life: 2, sequence: 1 }), STANDING, 0)).toBeDefined();
    expect(allotments.renew(aRequest({ sequence: 9 }), STANDING, 0)).toBeUndefined();
  });

  test("hold of a silent shard its minute for a minute and its month until the next one", () => {
    const allotments = new ShardAllotments();
    const kept = levels({ concurrency: 10, tokens: 10, monthTokens: 10 });
    allotments.renew(aRequest({ kept }), STANDING, 0);
    const heldAt = (nowMs: number, month = 5) => {
      const own = allotments.own(LIMITS, month, nowMs);
      const { concurrencyMax = 0, tokensPerMinuteMax = 0, tokensPerMonthMax = 0 } = own;
      return [100 - concurrencyMax, 1_000 - tokensPerMinuteMax, 10_000 - tokensPerMonthMax];
    };
    expect(heldAt(LEASE_MS - 1)).toEqual([10, 10, 10]);
    expect(heldAt(LEASE_MS)).toEqual([0, 10, 10]);
    expect(heldAt(LEASE_MS + 60_500)).toEqual([0, 0, 10]);
    expect(heldAt(LEASE_MS - 1, 6)).toEqual([10, 10, 10]);
    expect(heldAt(LEASE_MS, 6)).toEqual([0, 10, 0]);
  });

  test("know of their shards in their next life", () => {
    const before = new ShardAllotments();
    before.renew(aRequest({ shard: 3, kept: levels({ monthTokens: 9_999 }) }), STANDING, 0);
    const after = new ShardAllotments(before.state);
    expect([new ShardAllotments().shardCount, after.shardCount]).toEqual([1, 4]);
    expect(after.own(LIMITS, 5, 0).tokensPerMonthMax).toBe(1);
  });
});

const ask = (lease: ShardLease, taken: Levels) =>
  lease.ask(taken, { wants: NO_LEVELS, least: NO_LEVELS, isBusy: true, month: 5 });

describe("ShardLease", () => {
  const grant = { allotted: levels({ concurrency: 8, monthTokens: 9 }), free: NO_LEVELS };

  test("is nothing before the first answer, after its time, and of another month", () => {
    const lease = new ShardLease(1, 1);
    const tokensOf = (month: number, nowMs: number) =>
      lease.limitsMax(LIMITS, month, nowMs).tokensPerMonthMax;
    expect([lease.isLeased(0), tokensOf(5, 0)]).toEqual([false, 0]);
    lease.take(ask(lease, NO_LEVELS), grant, 1_000);
    expect([tokensOf(5, 1_000), tokensOf(6, 1_000)]).toEqual([9, 0]);
    expect(tokensOf(5, 1_000 + LEASE_MS - 1)).toBe(9);
    expect(tokensOf(5, 1_000 + LEASE_MS)).toBe(0);
    expect(lease.limitsMax({ concurrencyMax: 3 }, 5, 1_000)).toEqual({ concurrencyMax: 8 });
    expect(lease.limitsMax({}, 5, 1_000)).toEqual({});
  });

  test("has no more than is taken once it has asked, until it is answered that", () => {
    const lease = new ShardLease(1, 1);
    const late = ask(lease, NO_LEVELS);
    lease.take(late, grant, 0);
    const request = ask(lease, levels({ concurrency: 3 }));
    expect(request).toMatchObject({ shard: 1, life: 1, sequence: 2, kept: { concurrency: 3 } });
    expect(lease.limitsMax(LIMITS, 5, 0).concurrencyMax).toBe(3);
    lease.take(late, grant, 0);
    expect(lease.limitsMax(LIMITS, 5, 0).concurrencyMax).toBe(3);
    lease.take(request, grant, 0);
    expect(lease.limitsMax(LIMITS, 5, 0).concurrencyMax).toBe(8);
  });
});
