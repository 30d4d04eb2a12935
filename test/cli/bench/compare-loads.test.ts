import { describe, expect, test } from "vitest";
import { compareLoads } from "../../../cli/bench/compare-loads.ts";
import type { LoadResult, RequestDetail } from "../../../cli/bench/load-result.ts";
import { seededRandom } from "../../../src/base/random.ts";

/** Only what a comparison looks at. */
function resultOf(requests: readonly RequestDetail[], goodput = "ttft:130"): LoadResult {
  const quantiles = { p50: 0, p90: 0, p95: 0, p99: 0 };
  return {
    date: "",
    model_id: "m",
    num_prompts: requests.length,
    request_rate: 1,
    burstiness: 1,
    max_concurrency: 1,
    duration: 1,
    completed: 0,
    failed: 0,
    request_throughput: 0,
    request_goodput: null,
    output_throughput: 0,
    rejected: 0,
    failures: {},
    offered: requests.length,
    seed: 1,
    interrupted: false,
    attainment_offered: null,
    steady: { is_steady: true, under_way_first: 0, under_way_last: 0 },
    client: {
      kept_up: true,
      lateness_ms: quantiles,
      lateness_max_ms: 0,
      held_requests: 0,
      event_loop_delay_p99_ms: 0,
    },
    prompt_tokens_measured: true,
    tenants: [
      {
        name: "chat",
        goodput,
        offered: requests.length,
        admitted: 0,
        completed: 0,
        failed: 0,
        cancelled: 0,
        rejected: 0,
        rejected_by_status: {},
        failures: {},
        good: 0,
        request_goodput: null,
        attainment_offered: null,
        attainment_admitted: null,
        attainment_admitted_interval: null,
        ttft_ms: quantiles,
        tpot_ms: quantiles,
        tbt_ms: quantiles,
        e2el_ms: quantiles,
        fluidity_index: { mean: null, share_above_0_9: null },
      },
    ],
    requests: [...requests],
  };
}

/** Whose latencies hang together over stretches, as those of a server with bursts do. */
function requestsOf(seed: number, meanMs: number): RequestDetail[] {
  const random = seededRandom(seed);
  let level = 1;
  return Array.from({ length: 900 }, (_, index) => {
    if (index % 30 === 0) level = 0.5 + random();
    const ttft = meanMs * level * (0.9 + 0.2 * random());
    return {
      tenant: 0,
      due_s: index / 10,
      ttft_ms: ttft,
      tpot_ms: 20,
      e2el_ms: ttft + 200,
      ending: "answered" as const,
      good: ttft < 130,
    };
  });
}

const medianOf = (a: LoadResult, b: LoadResult) =>
  compareLoads(a, b).find(({ figure }) => figure === "TTFT p50, ms");

const tooFewOf = (a: readonly RequestDetail[], b: readonly RequestDetail[]) =>
  compareLoads(resultOf(a), resultOf(b)).filter(({ isTooFew }) => isTooFew);

describe("compareLoads()", () => {
  test("mostly finds no difference between two runs of the same, though each has its bursts", () => {
    const rounds = Array.from({ length: 20 }, (_, round) => {
      const [a, b] = [2 * round + 1, 2 * round + 2].map((seed) => resultOf(requestsOf(seed, 100)));
      const found = a && b && medianOf(a, b);
      return found !== undefined && found.interval.low <= 0 && found.interval.high >= 0;
    });
    // Drawn one by one, requests would seem to be 30 times as many as they are: half of these would differ.
    expect(rounds.filter(Boolean).length).toBeGreaterThanOrEqual(17);
  });

  test("finds one that is there, with its size", () => {
    const found = medianOf(resultOf(requestsOf(1, 100)), resultOf(requestsOf(2, 200)));
    expect(found?.difference).toBeGreaterThan(70);
    expect(found?.interval.low).toBeGreaterThan(0);
    expect(found?.interval.high).toBeGreaterThan(found?.difference ?? 0);
  });

  test("says of too few requests that they are, and gives no interval", () => {
    const [ours, theirs] = [requestsOf(1, 100), requestsOf(2, 200)].map((all) => all.slice(0, 100));
    if (!ours || !theirs) throw new Error("Expected two sides");
    const few = tooFewOf(ours, theirs.slice(0, 19));
    expect(few.length).toBe(8);
    expect(few.every(({ interval }) => Number.isNaN(interval.low + interval.high))).toBe(true);
    const slowest = ["TTFT p99, ms", "TPOT p99, ms", "E2E p99, ms"];
    expect(tooFewOf(ours.slice(0, 20), theirs).map(({ figure }) => figure)).toEqual(slowest);
    expect(tooFewOf(ours, theirs)).toEqual([]);
    // Of a hundred that were offered 19 were let in.
    const refused = ours
      .slice(0, 100)
      .map((request, index) =>
        index < 19 ? request : { ...request, ending: "refused" as const, ttft_ms: null },
      );
    expect(tooFewOf(refused, theirs).map(({ figure }) => figure)).toEqual(
      ["TTFT", "TPOT", "E2E"].flatMap((name) => [`${name} p50, ms`, `${name} p99, ms`]),
    );
  });

  test("judges nothing by goals that a side does not have", () => {
    const [a, b] = [requestsOf(1, 100), requestsOf(2, 200)];
    const [found] = compareLoads(resultOf(a, ""), resultOf(b));
    expect(found).toMatchObject({ figure: "good of offered, %", a: NaN, difference: NaN });
    expect(found?.interval).toEqual({ low: NaN, high: NaN });
    expect(found?.b).toBeLessThan(100);
    const [judged] = compareLoads(resultOf(a), resultOf(b));
    expect(judged?.interval.high).toBeLessThan(0);
  });

  test("counts a failure as infinitely late and leaves refusals out of latencies, not out of shares", () => {
    const requests = requestsOf(1, 100);
    const refused = requests.map((request, index): RequestDetail =>
      index % 2 === 0 ? { ...request, ending: "refused", ttft_ms: null, good: false } : request,
    );
    const figures = compareLoads(resultOf(requests), resultOf(refused));
    const byName = new Map(figures.map((figure) => [figure.figure, figure]));
    expect(byName.get("refused, %")?.b).toBe(50);
    expect(byName.get("TTFT p99, ms")?.b).toBeLessThan(200);
    const failed = requests.map((request, index): RequestDetail =>
      index % 20 === 0 ? { ...request, ending: "failed", ttft_ms: null, good: false } : request,
    );
    const late = compareLoads(resultOf(requests), resultOf(failed));
    expect(late.find(({ figure }) => figure === "TTFT p99, ms")?.b).toBe(Infinity);
  });

  test("is the same for a file in another order, and with requests that were given up", () => {
    const [a, b] = [requestsOf(1, 100).slice(0, 120), requestsOf(2, 110).slice(0, 120)];
    const plain = compareLoads(resultOf(a), resultOf(b));
    const byGoal = b.toSorted((one, other) => Number(one.good) - Number(other.good));
    expect(compareLoads(resultOf(a), resultOf(byGoal))).toEqual(plain);
    const givenUp = b.map((request): RequestDetail => ({
      ...request,
      due_s: request.due_s + 1_000,
      ending: "cancelled",
      ttft_ms: null,
      good: false,
    }));
    expect(compareLoads(resultOf(a), resultOf([...b, ...givenUp]))).toEqual(plain);
  });
});
