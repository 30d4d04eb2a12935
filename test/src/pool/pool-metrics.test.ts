import { describe, expect, test } from "vitest";
import { encodeMetrics } from "../../../src/base/metric-text.ts";
import { callPool } from "../../../src/pool/pool-call.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { PoolId, TenantId } from "../../../src/protocol/ids.ts";
import type { Attainment } from "../../../src/slo/attainment.ts";
import type { MetricLine } from "../../support/metric-lines.ts";
import { parseMetrics, valueOf } from "../../support/metric-lines.ts";
import { anOffer, aPool, aReadyPool, NO_GUARANTEE } from "../../support/pool-builders.ts";
import { replicaIdOf } from "../../support/replica-builders.ts";
import { leaseOf } from "./full-pool.ts";
import { RandomCalls, TIGHT_LIMITS } from "./random-calls.ts";

const POOL = PoolId.parse("local");
const GOOD: Attainment = { kind: "good", missed: [], isDegraded: false };
const LATE: Attainment = { kind: "missed", missed: ["ttft"], isDegraded: false };

function metricsOf(pool: Pool, nowMs: number): MetricLine[] {
  return parseMetrics(encodeMetrics(pool.metrics(POOL, nowMs)));
}

function sumOf(lines: readonly MetricLine[], name: string): number {
  return lines.reduce((sum, line) => sum + (line.name === name ? line.value : 0), 0);
}

describe("the metrics of a pool", () => {
  test("tell how its requests fared, of all and of each tenant", () => {
    const pool = aReadyPool();
    const first = leaseOf(pool.offer(anOffer("first", { elapsedMs: 300 }), 0));
    pool.started(first, 200, 200);
    pool.settle(
      first,
      {
        kind: "completed",
        attainment: GOOD,
        promptTokens: 40,
        cachedTokens: 16,
        outputTokens: 11,
        decodeMs: 300,
      },
      700,
    );
    const second = leaseOf(pool.offer(anOffer("second"), 700));
    const failed = { kind: "upstream-failed", attainment: LATE, reasoningTokens: 3 } as const;
    pool.settle(second, failed, 800);
    const share = NO_GUARANTEE;
    const [refused] = pool.offer(
      anOffer("third", {
        tenantId: TenantId.parse("tenant-b"),
        share,
        promptBytes: 4e6,
        overload: [],
      }),
      800,
    );
    expect(refused?.kind).toBe("reject");

    const retried = { isRetry: true, retryReason: "refused" } as const;
    const again = leaseOf(pool.offer(anOffer("second", retried), 800));
    pool.settle(again, { kind: "client-gone" }, 800);
    const late = leaseOf(pool.offer(anOffer("late"), 800));
    pool.settle(late, { kind: "upstream-failed", isTimedOut: true }, 800);

    const lines = metricsOf(pool, 800);
    const value = (name: string, labels = {}) => valueOf(lines, name, labels);
    expect(value("gw_pool_start_time_seconds", { pool: "local" })).toBe(-60);
    expect(value("gw_offers_total")).toBe(5);
    expect(value("gw_dispatches_total")).toBe(4);
    expect(sumOf(lines, "gw_upstream_retries_total")).toBe(1);
    expect(value("gw_upstream_retries_total", { reason: "refused" })).toBe(1);
    expect(value("gw_stream_end_total", { by: "deadline" })).toBe(1);
    expect(value("gw_stream_end_total", { by: "client_abort" })).toBe(1);
    expect(sumOf(lines, "gw_admission_rejected_total")).toBe(1);
    expect(value("gw_stream_end_total", { by: "done" })).toBe(1);
    expect(value("gw_stream_end_total", { by: "upstream_error" })).toBe(1);
    expect(
      ["input", "cached_input", "output", "reasoning"].map((type) =>
        value("gw_tokens_total", { type }),
      ),
    ).toEqual([40, 16, 11, 3]);
    const a = { tenant: "tenant-a" };
    expect(value("gw_tenant_offered_total", { ...a, in_profile: "true" })).toBe(3);
    expect(value("gw_tenant_offered_total", { ...a, in_profile: "false" })).toBe(0);
    expect(value("gw_tenant_good_total", a)).toBe(1);
    expect(value("gw_tenant_missed_total", a)).toBe(1);
    expect(value("gw_tenant_missed_by_total", { ...a, target: "ttft" })).toBe(1);
    expect(value("gw_tenant_attainment_ratio", { ...a, window: "5m" })).toBe(0.5);
    expect(value("gw_tenant_burn_rate", { ...a, window: "1h" })).toBeCloseTo(50);
    const b = { tenant: "tenant-b" };
    expect(value("gw_tenant_offered_total", { ...b, in_profile: "false" })).toBe(1);
    expect(value("gw_tenant_attainment_ratio", { ...b, window: "5m" })).toBeUndefined();
  });

  test("tell how long things took: from the arrival, and from the dispatch beside what was expected", () => {
    const pool = aReadyPool();
    const lease = leaseOf(pool.offer(anOffer("r", { elapsedMs: 300 }), 0));
    pool.started(lease, 200, 200);
    pool.settle(lease, { kind: "completed", outputTokens: 11, decodeMs: 300 }, 700);
    const lines = metricsOf(pool, 700);
    expect(valueOf(lines, "gen_ai_server_time_to_first_token_seconds_sum")).toBeCloseTo(0.5);
    expect(valueOf(lines, "gw_actual_first_token_seconds_sum")).toBeCloseTo(0.2);
    expect(valueOf(lines, "gen_ai_server_time_per_output_token_seconds_sum")).toBeCloseTo(0.03);
    expect(valueOf(lines, "gen_ai_server_request_duration_seconds_sum")).toBeCloseTo(1);
    expect(valueOf(lines, "gw_queue_wait_seconds_count")).toBe(1);
    const expected = valueOf(lines, "gw_forecast_first_token_seconds_sum") ?? 0;
    expect(expected).toBeGreaterThan(0);
    expect(valueOf(lines, "gw_forecast_first_token_ratio_sum")).toBeCloseTo(0.2 / expected);
    expect(sumOf(lines, "gw_forecast_bounds_total")).toBeGreaterThan(0);
  });

  test("tell of a replica what it said, and nothing in its name before it said anything", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    pool.disconnected(replicaIdOf(1), 0);
    const lines = metricsOf(pool, 0);
    const state = (index: number, name: string) =>
      valueOf(lines, "gw_replica_state", { replica: replicaIdOf(index), state: name });
    expect([state(0, "ready"), state(0, "disconnected")]).toEqual([1, 0]);
    expect([state(1, "ready"), state(1, "disconnected")]).toEqual([0, 1]);
    const first = { replica: replicaIdOf(0) };
    expect(valueOf(lines, "gw_replica_health", { ...first, health: "healthy" })).toBe(1);
    expect(valueOf(lines, "gw_replica_kv_usage_ratio", first)).toBe(0);
    const silent = metricsOf(aPool(), 0);
    expect(silent.filter(({ name }) => name.startsWith("gw_replica_"))).toEqual([]);
  });

  test("count up only, and every offer ends in one of their counters, whatever happens", () => {
    for (let seed = 1; seed <= 8; seed += 1) {
      const pool = aPool({ seed, limits: TIGHT_LIMITS });
      const calls = new RandomCalls(seed);
      let before = new Map<string, number>();
      for (let index = 0; index < 200; index += 1) {
        calls.heed(callPool(pool, calls.next(), calls.nowMs));
        if (index % 10 > 0) continue;
        const lines = metricsOf(pool, calls.nowMs);
        const value = (name: string) => valueOf(lines, name) ?? 0;
        const rejected = sumOf(lines, "gw_admission_rejected_total");
        const settled = value("gw_dispatches_total") + rejected + sumOf(lines, "gw_queue_depth");
        expect(settled, `seed ${seed}`).toBe(value("gw_offers_total"));
        expect(value("gw_queue_wait_seconds_count")).toBe(value("gw_dispatches_total"));
        expect(sumOf(lines, "gw_route_total")).toBe(value("gw_dispatches_total"));
        const now = new Map(
          lines
            .filter(({ name }) => /_(?:total|count|bucket)$/.test(name))
            .map((line) => [line.name + JSON.stringify(line.labels), line.value]),
        );
        for (const [series, count] of now) {
          // A tenant that was forgotten begins anew.
          if (series.startsWith("gw_tenant_")) continue;
          expect(count, `seed ${seed}: ${series}`).toBeGreaterThanOrEqual(before.get(series) ?? 0);
        }
        before = now;
      }
      expect(before.get('gw_offers_total{"pool":"local"}')).toBeGreaterThan(50);
    }
  });

  test("tell of no more than a thousand tenants, those heard of last", () => {
    const pool = aReadyPool();
    for (let index = 0; index < 1_010; index += 1) {
      const tenantId = TenantId.parse(`t${index}`);
      const lease = leaseOf(pool.offer(anOffer(`r${index}`, { tenantId, outputTokensMax: 1 }), 0));
      pool.settle(lease, { kind: "completed", attainment: GOOD }, 0);
    }
    const lines = metricsOf(pool, 0);
    expect(valueOf(lines, "gw_tenants")).toBe(1_010);
    const told = lines.filter(({ name }) => name === "gw_tenant_good_total");
    expect(told.map(({ labels }) => labels["tenant"])).toEqual(
      Array.from({ length: 1_000 }, (_, index) => `t${index + 10}`),
    );
  });
});
