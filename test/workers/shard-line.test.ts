import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { NO_LEVELS } from "../../src/tenants/levels.ts";
import type { LeaseRequest, TenantStanding } from "../../src/tenants/shard-allotments.ts";
import { ShardAllotments } from "../../src/tenants/shard-allotments.ts";
import type { LimitsMax } from "../../src/tenants/tenant-limits.ts";
import { TenantLimits } from "../../src/tenants/tenant-limits.ts";
import type { ShardLineEnds } from "../../workers/shard-line.ts";
import { nextLife, ShardLine, WAITING_MAX } from "../../workers/shard-line.ts";
import { aRow, skipTime } from "./support/limits.ts";

type First = ReturnType<ShardLineEnds["firstOf"]>;

/** A first object that is asked here rather than over a network, and how often that was. */
function aFirst() {
  const allotments = new ShardAllotments();
  const calls = { count: 0 };
  const lease = async (
    request: LeaseRequest,
    tenant: Pick<TenantStanding, "limitsMax" | "shardCount">,
  ) => {
    calls.count += 1;
    const { month } = request;
    return allotments.renew(request, { ...tenant, ownTaken: NO_LEVELS, month }, Date.now());
  };
  return { calls, first: { lease } };
}

/** Timers and clocks are those of an object. */
function inObject<Result>(run: () => Promise<Result>): Promise<Result> {
  return runInDurableObject(env.TENANTS.getByName(crypto.randomUUID()), run);
}

function aLine(first: First) {
  const ends = { shard: 1, shardCount: 4, life: 1, limits: new TenantLimits() };
  const line = new ShardLine({ ...ends, firstOf: () => first });
  return (limitsMax: LimitsMax, tokensMax = 10) =>
    line.acquire({ row: aRow({ tokensMax }), limitsMax });
}

describe("ShardLine", () => {
  test("asks once for all that come at once, and for nothing that fits its part", () =>
    inObject(async () => {
      const { calls, first } = aFirst();
      const acquire = aLine(first);
      const limitsMax = { concurrencyMax: 1_000 };
      const answers = await Promise.all(Array.from({ length: 200 }, () => acquire(limitsMax)));
      expect(answers.filter(({ kind }) => kind === "granted")).toHaveLength(200);
      expect(calls.count).toBeLessThanOrEqual(2);
      await Promise.all(Array.from({ length: 50 }, () => acquire(limitsMax)));
      expect(calls.count).toBeLessThanOrEqual(2);
    }));

  test("asks no more for what was just refused, but for what is smaller, and later again", () =>
    inObject(async () => {
      const { calls, first } = aFirst();
      const acquire = aLine(first);
      const limitsMax = { tokensPerMonthMax: 100 };
      expect((await acquire(limitsMax, 60)).kind).toBe("granted");
      expect((await acquire(limitsMax, 50)).kind).toBe("rejected");
      const asked = calls.count;
      for (const tokensMax of [50, 51, 90]) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        expect((await acquire(limitsMax, tokensMax)).kind).toBe("rejected");
      }
      expect(calls.count).toBe(asked);
      expect((await acquire(limitsMax, 40)).kind).toBe("granted");
      expect(calls.count).toBe(asked + 1);
      skipTime(100);
      await acquire(limitsMax, 50);
      expect(calls.count).toBe(asked + 2);
    }));

  test("fails who waits for a first object that is away, and lets no more wait than its bound", () =>
    inObject(async () => {
      const lines = vi.spyOn(console, "error").mockImplementation(() => {});
      const acquire = aLine({ lease: () => new Promise(() => {}) });
      const limitsMax = { concurrencyMax: 10_000 };
      const asking = acquire(limitsMax);
      await scheduler.wait(1);
      const waiting = Array.from({ length: WAITING_MAX }, () => acquire(limitsMax));
      expect(await acquire(limitsMax)).toMatchObject({ kind: "rejected", limit: "concurrency" });
      const ends = await Promise.allSettled([asking, ...waiting]);
      expect(new Set(ends.map(({ status }) => status))).toEqual(new Set(["rejected"]));
      expect(lines.mock.calls.length).toBeLessThanOrEqual(2);
    }));

  test("counts the lives of its object", () =>
    runInDurableObject(env.TENANTS.getByName(crypto.randomUUID()), (_object, { storage }) => {
      expect([nextLife(storage), nextLife(storage)]).toEqual([1, 2]);
    }));
});
