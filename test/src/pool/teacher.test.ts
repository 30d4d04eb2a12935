import { describe, expect, test } from "vitest";
import type { Offer, Outcome } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { anOffer, aReadyPool, firstTokenWithin, only } from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { PoolId } from "../../../src/protocol/ids.ts";
import { parseMetrics, valueOf } from "../../support/metric-lines.ts";
import { chainOfText } from "../../support/prompt-chains.ts";
import { leaseOf } from "./full-pool.ts";

const PATIENT: Partial<Offer> = { targets: firstTokenWithin(30_000), outputTokensMax: 100 };

/** Sends requests one after another and lets each fare as told; returns the instant after the last. */
function live(
  pool: Pool,
  count: number,
  fare: {
    readonly outcome: Outcome;
    readonly firstTokenAfterMs?: number;
    readonly endsAfterMs?: number;
  },
  change: Partial<Offer> = PATIENT,
  startAtMs = 0,
): number {
  let nowMs = startAtMs;
  for (let index = 0; index < count; index += 1) {
    pool.report(replicaIdOf(0), aReport(2 + nowMs), nowMs);
    const leaseId = leaseOf(pool.offer(anOffer(`r${nowMs}`, change), nowMs));
    const { firstTokenAfterMs, endsAfterMs = 0, outcome } = fare;
    if (firstTokenAfterMs !== undefined) pool.started(leaseId, firstTokenAfterMs, nowMs);
    pool.settle(leaseId, outcome, nowMs + endsAfterMs);
    nowMs += endsAfterMs + 10;
  }
  return nowMs;
}

function foreseenAt(pool: Pool, nowMs: number, change: Partial<Offer> = PATIENT) {
  pool.report(replicaIdOf(0), aReport(2 + nowMs), nowMs);
  const [sent] = only("dispatch", pool.offer(anOffer("next", change), nowMs));
  if (sent === undefined) throw new Error("The request was not dispatched");
  return sent.dispatch.forecast;
}

/** What an output is expected to have once others have fared so. */
function expectedOutputAfter(outcome: Outcome): number {
  const pool = aReadyPool();
  const nowMs = live(pool, 30, { outcome });
  pool.offer(anOffer("next", { ...PATIENT, outputTokensMax: 1_000 }), nowMs);
  return [...pool.state.leases.values()][0]?.outputTokens ?? 0;
}

/** What of a prompt that was sent before is counted as cached at the replica where it is. */
function countedCached(pool: Pool, nowMs: number): number {
  pool.report(replicaIdOf(0), aReport(2 + nowMs), nowMs);
  const leaseId = leaseOf(pool.offer(anOffer("asked", PREFIXED), nowMs));
  const { cachedTokens = -1, promptTokens = 1 } = pool.state.leases.get(leaseId) ?? {};
  pool.settle(leaseId, { kind: "client-gone" }, nowMs);
  return cachedTokens / promptTokens;
}

const PREFIXED: Partial<Offer> = { ...PATIENT, promptBytes: 4_000, chain: chainOfText("prefix") };

describe("a pool learns of what is cached", () => {
  test("that what it foresees does not come, and that it comes again", () => {
    const pool = aReadyPool();
    const counts = { promptTokens: 1_000, outputTokens: 5 };
    const afterMs = live(
      pool,
      30,
      { outcome: { kind: "completed", ...counts, cachedTokens: 0 } },
      PREFIXED,
    );
    expect(countedCached(pool, afterMs)).toBeLessThan(0.1);
    const hit = { outcome: { kind: "completed" as const, ...counts, cachedTokens: 1_000 } };
    const laterMs = live(pool, 30, hit, PREFIXED, afterMs + 10);
    expect(countedCached(pool, laterMs)).toBeGreaterThan(0.8);
  });

  test("nothing from a server that does not count what it had", () => {
    const pool = aReadyPool();
    const outcome = { kind: "completed", promptTokens: 1_000, outputTokens: 5 } as const;
    const afterMs = live(pool, 30, { outcome }, PREFIXED);
    expect(countedCached(pool, afterMs)).toBeGreaterThan(0.8);
  });

  test("whose prompts it saves how much of, by tenant and model", () => {
    const pool = aReadyPool();
    const outcome = { kind: "completed", promptTokens: 1_000, cachedTokens: 800 } as const;
    const afterMs = live(pool, 3, { outcome }, PREFIXED);
    const families = pool.metrics(PoolId.parse("p"), afterMs);
    const told = parseMetrics(families.map(({ lines }) => lines).join(""));
    const labels = { tenant: "tenant-a", model: "sluice-tiny" };
    expect(valueOf(told, "gw_prompt_tokens_total", labels)).toBe(3_000);
    expect(valueOf(told, "gw_prompt_cached_tokens_total", labels)).toBe(2_400);
    expect(valueOf(told, "gw_prefill_saved_seconds_total", labels)).toBeGreaterThan(0);
  });
});

describe("a pool learns", () => {
  test("that first tokens come later than foreseen, and in silence forgets it again", () => {
    const fresh = foreseenAt(aReadyPool(), 0).ttftMs;
    const pool = aReadyPool();
    const afterMs = live(pool, 100, { outcome: { kind: "completed" }, firstTokenAfterMs: 500 });
    const taught = foreseenAt(pool, afterMs).ttftMs;
    expect(taught).toBeGreaterThan(400);
    const muchLater = afterMs + 24 * 3_600_000;
    pool.wake(muchLater);
    const forgotten = foreseenAt(pool, muchLater).ttftMs;
    expect(forgotten).toBeLessThan((fresh + taught) / 2);
  });

  test("nothing from one that left before its bound, much from one that stayed beyond it in vain", () => {
    const fresh = foreseenAt(aReadyPool(), 0).ttftMs;
    const left = aReadyPool();
    let nowMs = live(left, 50, { outcome: { kind: "client-gone" }, endsAfterMs: 10 });
    expect(foreseenAt(left, nowMs).ttftMs).toBe(fresh);
    const stayed = aReadyPool();
    nowMs = live(stayed, 50, { outcome: { kind: "client-gone" }, endsAfterMs: 2_000 });
    expect(foreseenAt(stayed, nowMs).ttftMs).toBeGreaterThan(2 * fresh);
  });

  test("no first token's time from an answer that comes as a whole", () => {
    const pool = aReadyPool();
    const whole: Partial<Offer> = { ...PATIENT, isStreamed: false };
    const fresh = foreseenAt(aReadyPool(), 0).ttftMs;
    const nowMs = live(pool, 50, { outcome: { kind: "client-gone" }, endsAfterMs: 2_000 }, whole);
    expect(foreseenAt(pool, nowMs).ttftMs).toBe(fresh);
  });

  test("that answers come slower than foreseen", () => {
    const pool = aReadyPool();
    const fresh = foreseenAt(aReadyPool(), 0).tpotMs;
    const outcome = { kind: "completed", outputTokens: 51, decodeMs: 50 * 40 } as const;
    expect(foreseenAt(pool, live(pool, 100, { outcome })).tpotMs).toBeGreaterThan(1.5 * fresh);
  });

  test("no pace from answers of few tokens", () => {
    const pool = aReadyPool();
    const fresh = foreseenAt(aReadyPool(), 0).tpotMs;
    const outcome = { kind: "completed", outputTokens: 3, decodeMs: 4_000 } as const;
    expect(foreseenAt(pool, live(pool, 100, { outcome })).tpotMs).toBeCloseTo(fresh, 0);
  });

  test("how many tokens prompts have, from those that an engine counted", () => {
    const pool = aReadyPool();
    const promptBytes = 1_400;
    const change = { ...PATIENT, promptBytes };
    const outcome = { kind: "completed", promptTokens: 1_400 } as const;
    const nowMs = live(pool, 60, { outcome }, change);
    const untaught = foreseenAt(aReadyPool(), 0, change).ttftMs;
    expect(foreseenAt(pool, nowMs, change).ttftMs).toBeGreaterThan(2 * untaught);
  });

  test("how long outputs become, and takes a limit for no length", () => {
    const short = expectedOutputAfter({ kind: "completed", outputTokens: 20 });
    expect(short).toBeLessThan(40);
    expect(expectedOutputAfter({ kind: "completed", outputTokens: 100 })).toBeGreaterThan(110);
  });

  test("what became of a promise, as its caller judges it", () => {
    const pool = aReadyPool();
    live(pool, 3, {
      outcome: { kind: "completed", attainment: { kind: "good", missed: [], isDegraded: false } },
    });
    live(
      pool,
      2,
      {
        outcome: {
          kind: "completed",
          attainment: { kind: "missed", missed: ["ttft", "tpot"], isDegraded: false },
        },
      },
      PATIENT,
      1_000,
    );
    expect(pool.status(1_100).tenants).toMatchObject([
      { counts: { offered: 5, admitted: 5, good: 3, missed: 2, missedBy: { ttft: 2, tpot: 2 } } },
    ]);
  });

  test("that a replica fails, and that it is well again", () => {
    const pool = aReadyPool();
    const nowMs = live(pool, 2, { outcome: { kind: "upstream-failed" } });
    expect(pool.status(nowMs).replicas).toMatchObject([{ health: "suspect" }]);
    const afterMs = live(pool, 1, { outcome: { kind: "completed" } }, PATIENT, nowMs);
    expect(pool.status(afterMs).replicas).toMatchObject([{ health: "healthy" }]);
  });

  test("nothing of a replica from clients that leave", () => {
    const pool = aReadyPool();
    const nowMs = live(pool, 10, { outcome: { kind: "client-gone" } });
    expect(pool.status(nowMs).replicas).toMatchObject([{ health: "healthy" }]);
  });
});
