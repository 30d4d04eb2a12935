import { setMaxListeners } from "node:events";
import * as z from "zod";
import { describe, expect, test } from "vitest";
import type { AnswerEnd } from "../../../cli/bench/answer-end.ts";
import { parseGoals } from "../../../cli/bench/goals.ts";
import { drawArrivals } from "../../../cli/bench/load-arrivals.ts";
import { LoadResult } from "../../../cli/bench/load-result.ts";
import type { LoadArrival, LoadTenant } from "../../../cli/bench/load-tenant.ts";
import { measureLoad } from "../../../cli/bench/measure-load.ts";
import type { MeasuredLoad } from "../../../cli/bench/measure-load.ts";
import { reportLoad } from "../../../cli/bench/report-load.ts";
import type { LoadOptions } from "../../../cli/bench/run-load.ts";
import { VirtualTime } from "./virtual-time.ts";

const TENANT: LoadTenant = {
  name: "chat",
  token: undefined,
  className: undefined,
  weight: 1,
  burstiness: Infinity,
  promptTokens: { min: 100, max: 100 },
  outputTokens: { min: 11, max: 11 },
  goals: parseGoals("ttft:500 tpot:30"),
};

const SETTING = {
  date: "2026-11-30T00:00:00.000Z",
  model: "stand-in",
  endpoint: "chat",
  ratePerSecond: 10,
  burstiness: Infinity,
  concurrencyMax: 1_000,
  seed: 1,
} as const;

function signalForMany(): AbortSignal {
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  return signal;
}

type Send = LoadOptions["send"];

/** Ten requests a second for a minute, unless something else is said, in virtual time. */
async function measure(
  createSend: (time: VirtualTime) => Send,
  changes: Partial<Omit<MeasuredLoad, "setting">> & {
    readonly concurrencyMax?: number;
    readonly onTime?: (time: VirtualTime) => void;
  } = {},
): Promise<LoadResult> {
  const time = new VirtualTime();
  changes.onTime?.(time);
  const tenants = changes.tenants ?? [TENANT];
  const { concurrencyMax = SETTING.concurrencyMax } = changes;
  const draw = { seed: 1, ratePerSecond: 10, durationMs: 60_000 };
  return time.run(
    measureLoad({
      tenants,
      arrivals: drawArrivals(tenants, draw),
      clock: time,
      send: createSend(time),
      signal: signalForMany(),
      warmUpMs: 10_000,
      durationMs: 60_000,
      isMeasured: true,
      keepsDetails: false,
      setting: { ...SETTING, concurrencyMax },
      ...changes,
    }),
  );
}

interface Pace {
  readonly ttftMs: number;
  readonly gapMs: number;
}

/** Answers with one chunk a token, at a pace that may depend on the request and on the instant. */
const answering =
  (paceOf: (arrival: LoadArrival, nowMs: number) => Pace) =>
  (time: VirtualTime): Send =>
  async (arrival, onOutput, signal): Promise<AnswerEnd> => {
    const { ttftMs, gapMs } = paceOf(arrival, time.readNowMs());
    for (let token = 0; token < arrival.outputTokens; token += 1) {
      await time.waitUntil(time.readNowMs() + (token === 0 ? ttftMs : gapMs), signal);
      if (signal.aborted) return { kind: "cancelled" };
      onOutput(time.readNowMs());
    }
    const { promptTokens: inputTokens, outputTokens } = arrival;
    return { kind: "answered", inputTokens, outputTokens };
  };

/** As vLLM's `benchmarks/serve.py` writes them with `--save-detailed`. */
const VLLM_FIELDS =
  `date backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency
  duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput
  output_throughput total_token_throughput input_lens output_lens ttfts itls start_times errors`.split(
    /\s+/,
  );

const STEADY = answering(() => ({ ttftMs: 120, gapMs: 20 }));
const CALM = { p50: 120, p90: 120, p95: 120, p99: 120 };

// Between 20 s and 30 s the server does nothing at all.
const stall = (_: LoadArrival, nowMs: number) => ({
  ttftMs: nowMs >= 20_000 && nowMs < 30_000 ? 30_000 - nowMs + 120 : 120,
  gapMs: 0,
});

const troubled = (time: VirtualTime): Send => {
  const send = STEADY(time);
  return (arrival, ...rest) => {
    const turn = arrival.index % 10;
    if (turn < 2) return Promise.resolve({ kind: "refused", status: 429, code: undefined });
    if (turn === 2) return Promise.resolve({ kind: "refused", status: 503, code: undefined });
    if (turn === 3) return Promise.resolve({ kind: "failed", reason: "reset" });
    return send(arrival, ...rest);
  };
};

const cold = (_: LoadArrival, nowMs: number) => ({
  ttftMs: nowMs < 10_000 ? 5_000 : 120,
  gapMs: 20,
});

describe("measureLoad()", () => {
  test("tells the latencies that the server has", async () => {
    const result = await measure(STEADY);
    expect(LoadResult.parse(result)).toBeDefined();
    const [tenant] = result.tenants;
    expect(tenant?.offered).toBe(500);
    expect(tenant?.ttft_ms.p50).toBeCloseTo(120, 6);
    expect(tenant?.ttft_ms.p99).toBeCloseTo(120, 6);
    expect(tenant?.tpot_ms.p99).toBeCloseTo(20, 6);
    expect(tenant?.e2el_ms.p95).toBeCloseTo(320, 6);
    // A sketch tells gaps within 1 %.
    expect((tenant?.tbt_ms.p99 ?? 0) / 20).toBeCloseTo(1, 1);
    expect(tenant?.attainment_offered).toBe(1);
    expect(tenant?.fluidity_index).toEqual({ mean: 1, share_above_0_9: 1 });
    expect(result.request_throughput).toBeCloseTo(10, 1);
    expect(result.output_throughput).toBeCloseTo(110, 0);
    expect(result.request_goodput).toBeCloseTo(10, 6);
    expect(result.client.kept_up).toBe(true);
    expect(result.steady.is_steady).toBe(true);
  });

  test("has the fields of vllm bench serve", async () => {
    const result = await measure(STEADY, { keepsDetails: true });
    const names = VLLM_FIELDS.concat(
      ["ttft", "tpot", "itl", "e2el"].flatMap((metric) =>
        ["mean", "median", "std", "p50", "p90", "p95", "p99"].map((name) => `${name}_${metric}_ms`),
      ),
    );
    expect(Object.keys(result)).toEqual(expect.arrayContaining(names));
    expect(result["ttfts"]).toHaveLength(500);
    expect(result["p99_ttft_ms"]).toBeCloseTo(120, 6);
    expect(result["mean_itl_ms"]).toBeCloseTo(20, 6);
    expect(result["itls"]).toHaveLength(500);
    const [first] = z.array(z.array(z.number())).parse(result["itls"]);
    expect(first).toHaveLength(10);
    expect(first?.[0]).toBeCloseTo(0.02, 6);
  });

  test("counts from when a request was due: a stall is seen by all who would have come", async () => {
    const result = await measure(answering(stall));
    const late = result.requests.filter(({ ttft_ms: ttftMs }) => (ttftMs ?? 0) > 1_000);
    // All that were due in the first 9.12 s of it waited for more than a second.
    expect(late.length).toBeGreaterThanOrEqual(90);
    expect(late.length).toBeLessThanOrEqual(92);
    expect(result.tenants[0]?.ttft_ms.p99).toBeGreaterThan(8_500);
    expect(result.tenants[0]?.attainment_offered).toBeCloseTo((500 - 96) / 500, 2);
  });

  test("says that it could not keep up, and lets nobody's wait for a place go uncounted", async () => {
    let underWay = 0;
    let most = 0;
    const slow = (time: VirtualTime): Send => {
      const send = answering(() => ({ ttftMs: 1_000, gapMs: 0 }))(time);
      return async (...asked) => {
        most = Math.max(most, ++underWay);
        const end = await send(...asked);
        underWay -= 1;
        return end;
      };
    };
    const result = await measure(slow, { concurrencyMax: 5 });
    expect(most).toBe(5);
    expect(result.client.kept_up).toBe(false);
    expect(result.client.held_requests).toBeGreaterThan(400);
    // Five a second are served and ten are due: after a minute a minute is owed.
    expect(result.tenants[0]?.ttft_ms.p99).toBeGreaterThan(55_000);
    expect(result.steady.is_steady).toBe(false);
    expect(result.request_throughput).toBeCloseTo(5, 1);
    expect(reportLoad(result).join("\n")).toContain("could not keep up");
  });

  test("holds refusals and failures against what was offered, and failures against what was admitted", async () => {
    const result = await measure(troubled);
    const [tenant] = result.tenants;
    expect(tenant).toMatchObject({
      offered: 500,
      rejected: 150,
      rejected_by_status: { "429": 100, "503": 50 },
      failed: 50,
      failures: { reset: 50 },
      admitted: 350,
      completed: 300,
      good: 300,
    });
    expect(tenant?.attainment_offered).toBeCloseTo(0.6, 10);
    expect(tenant?.attainment_admitted).toBeCloseTo(300 / 350, 10);
    expect(tenant?.attainment_admitted_interval?.[0]).toBeLessThan(300 / 350);
    // A seventh of what was admitted never came.
    expect(tenant?.ttft_ms).toEqual({ ...CALM, p90: null, p95: null, p99: null });
    expect(result.failed).toBe(200);
    expect(result.failures).toEqual({ reset: 50 });
    expect(reportLoad(result)[0]).toMatch(/, 50 failed: reset 50$/);
  });

  test("tells few kinds of failures and keeps no more than are bounded, whatever a server says", async () => {
    const tenants = [TENANT, { ...TENANT, name: "other" }];
    const result = await measure(
      () => (arrival) =>
        Promise.resolve({
          kind: "failed",
          reason: arrival.index % 2 === 0 ? "500 x" : `odd ${arrival.index}`,
        }),
      { tenants },
    );
    for (const { failures, failed } of [...result.tenants, { ...result, name: "all" }]) {
      expect(Object.keys(failures).length).toBeLessThanOrEqual(21);
      expect(Object.values(failures).reduce((sum, count) => sum + count, 0)).toBe(failed);
    }
    expect(reportLoad(result)[0]).toMatch(
      /, 500 failed: 500 x \d+, (odd \d+ 1, ){4}for other reasons \d+$/,
    );
  });

  test("does not count what was due in the warm-up", async () => {
    const result = await measure(answering(cold));
    expect(result.tenants[0]?.ttft_ms.p99).toBeCloseTo(120, 6);
  });

  test("tells apart tenants that share one load, and judges each by its own goals", async () => {
    const tenants = [
      { ...TENANT, name: "tight", goals: parseGoals("ttft:100") },
      { ...TENANT, name: "loose", weight: 3 },
    ];
    const result = await measure(STEADY, { tenants });
    const [tight, loose] = result.tenants;
    expect([tight?.offered, loose?.offered]).toEqual([125, 375]);
    expect([tight?.good, loose?.good]).toEqual([0, 375]);
    expect(result.attainment_offered).toBeCloseTo(0.75, 10);
  });

  test("gives what there is when it is stopped, and blames nobody for what was under way", async () => {
    const stopped = new AbortController();
    setMaxListeners(0, stopped.signal);
    const result = await measure(
      answering(() => ({ ttftMs: 120, gapMs: 100 })),
      {
        signal: stopped.signal,
        onTime: (time) => time.at(30_000, () => stopped.abort()),
      },
    );
    expect(result.interrupted).toBe(true);
    expect(result.duration).toBeCloseTo(20, 3);
    const [tenant] = result.tenants;
    expect(tenant?.failed).toBe(0);
    expect(tenant?.cancelled).toBeGreaterThan(5);
    expect((tenant?.completed ?? 0) + (tenant?.cancelled ?? 0)).toBe(tenant?.offered);
    expect(tenant?.attainment_admitted).toBe(0);
    expect(tenant?.tpot_ms.p99).toBeCloseTo(100, 6);
  });
});
