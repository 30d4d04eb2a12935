import { meanOf, quantileOf } from "../../simulator/statistics.ts";
import { binomialInterval } from "../../src/slo/binomial.ts";
import type { CountedRequest, GapSums, RequestSpan } from "./load-tally.ts";
import { goalsText, hasGoals } from "./goals.ts";
import type { LoadResult, Quantiles, RequestDetail, TenantResult } from "./load-result.ts";
import type { LoadTenant } from "./load-tenant.ts";
import type { FinishedLoad } from "./finished-load.ts";
import { vllmFields } from "./vllm-fields.ts";
import { finite, ratioOf } from "./figures.ts";
import { mergeCounts } from "./reason-counts.ts";

/** Later than this, and than a twentieth of the median TTFT, is not the schedule that was asked for. */
const LATENESS_MS_MAX = 10;
const LATENESS_TTFT_RATIO_MAX = 0.05;
/** A load that its server sustains does not pile up: so much more, and some, in the second half. */
const PILING_RATIO = 1.5;
const PILING_REQUESTS = 5;
const SPANS_LOOKS = 20;
const FLUID_RATIO = 0.9;

/** Works out the result of a load. */
export function summarizeLoad(load: FinishedLoad): LoadResult {
  const { tally, tenants, warmUpMs, untilMs, setting } = load;
  const windowMs = Math.max(1, untilMs - warmUpMs);
  const { counted } = tally;
  const tenantResults = tenants.map((tenant, index) =>
    toTenantResult(tenant, { load, index, windowMs }),
  );
  return {
    ...vllmFields(load, windowMs),
    offered: counted.length,
    rejected: counted.filter(({ ending }) => ending === "refused").length,
    cancelled: counted.filter(({ ending }) => ending === "cancelled").length,
    failures: mergeCounts(tenantResults.map(({ failures }) => failures)),
    attainment_offered: tenants.some(({ goals }) => hasGoals(goals))
      ? ratioOf(counted.filter(({ isGood }) => isGood).length, judgedOf(counted))
      : null,
    seed: setting.seed,
    warm_up: warmUpMs / 1000,
    interrupted: load.isStopped,
    steady: steadinessOf(tally.spans, warmUpMs, untilMs),
    client: clientOf(load),
    prompt_tokens_measured: load.isMeasured,
    tenants: tenantResults,
    requests: counted.map(toDetail),
  };
}

function toTenantResult(
  { name, goals }: LoadTenant,
  at: { readonly load: FinishedLoad; readonly index: number; readonly windowMs: number },
): TenantResult {
  const { tally } = at.load;
  const own = tally.counted.filter(({ tenantIndex }) => tenantIndex === at.index);
  const count = (ending: CountedRequest["ending"]) =>
    own.filter((request) => request.ending === ending).length;
  // Of what was cut off by the end of the run nobody can say what would have become of it.
  const admitted = own.filter(({ ending }) => ending === "answered" || ending === "failed");
  const good = own.filter(({ isGood }) => isGood).length;
  const isJudged = hasGoals(goals);
  const fluidities = own.flatMap(({ fluidity }) => fluidity ?? []);
  return {
    name,
    goodput: goalsText(goals),
    offered: own.length,
    admitted: admitted.length,
    completed: count("answered"),
    failed: count("failed"),
    cancelled: count("cancelled"),
    rejected: count("refused"),
    rejected_by_status: Object.fromEntries(
      [...(tally.refusals[at.index] ?? [])].map(([status, requests]) => [String(status), requests]),
    ),
    failures: tally.failures[at.index]?.toRecord() ?? {},
    good,
    request_goodput: isJudged ? good / (at.windowMs / 1000) : null,
    attainment_offered: isJudged ? ratioOf(good, judgedOf(own)) : null,
    attainment_admitted: isJudged ? ratioOf(good, admitted.length) : null,
    attainment_admitted_interval:
      isJudged && admitted.length > 0 ? binomialInterval(good, admitted.length) : null,
    ttft_ms: quantilesOf(admitted.map(({ ttftMs }) => ttftMs)),
    tpot_ms: quantilesOf(admitted.map(({ tpotMs }) => tpotMs)),
    tbt_ms: gapQuantiles(tally.gapsByTenant[at.index]),
    e2el_ms: quantilesOf(admitted.map(({ e2eMs }) => e2eMs)),
    fluidity_index: {
      mean: ratioOf(
        fluidities.reduce((sum, fluidity) => sum + fluidity, 0),
        fluidities.length,
      ),
      share_above_0_9: ratioOf(
        fluidities.filter((fluidity) => fluidity >= FLUID_RATIO).length,
        fluidities.length,
      ),
    },
  };
}

const judgedOf = (requests: readonly CountedRequest[]) =>
  requests.filter(({ ending }) => ending !== "cancelled").length;

function quantilesOf(values: readonly number[]): Quantiles {
  const at = (ratio: number) => (values.length === 0 ? null : finite(quantileOf(values, ratio)));
  return { p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) };
}

function gapQuantiles(gaps: GapSums | undefined): Quantiles {
  const at = (ratio: number) => gaps?.sketch.quantile(ratio) ?? null;
  return { p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99) };
}

function clientOf(load: FinishedLoad): LoadResult["client"] {
  const { counted } = load.tally;
  const lateness = counted.map(({ latenessMs }) => latenessMs);
  const latenessMs = quantilesOf(lateness);
  const ttftMs = quantilesOf(counted.map((request) => request.ttftMs)).p50 ?? 0;
  const allowedMs = Math.max(LATENESS_MS_MAX, LATENESS_TTFT_RATIO_MAX * ttftMs);
  return {
    kept_up: load.held === 0 && (latenessMs.p99 ?? 0) <= allowedMs,
    lateness_ms: latenessMs,
    lateness_max_ms: lateness.reduce((most, ms) => Math.max(most, ms), 0),
    held_requests: load.held,
    event_loop_delay_p99_ms: load.eventLoopDelayMs,
  };
}

/** Compares how many requests were under way in the first half of the window and in the second. */
function steadinessOf(
  spans: readonly RequestSpan[],
  fromMs: number,
  untilMs: number,
): LoadResult["steady"] {
  const looks = Array.from({ length: SPANS_LOOKS }, (_, look) => {
    const atMs = fromMs + ((look + 0.5) / SPANS_LOOKS) * (untilMs - fromMs);
    return spans.filter(({ dueMs, endedMs }) => dueMs <= atMs && endedMs > atMs).length;
  });
  const first = meanOf(looks.slice(0, SPANS_LOOKS / 2));
  const last = meanOf(looks.slice(SPANS_LOOKS / 2));
  return {
    is_steady: last <= PILING_RATIO * first + PILING_REQUESTS,
    under_way_first: first,
    under_way_last: last,
  };
}

function toDetail(request: CountedRequest): RequestDetail {
  return {
    tenant: request.tenantIndex,
    due_s: request.dueMs / 1000,
    ttft_ms: finite(request.ttftMs),
    tpot_ms: finite(request.tpotMs),
    e2el_ms: finite(request.e2eMs),
    ending: request.ending,
    good: request.isGood,
  };
}
