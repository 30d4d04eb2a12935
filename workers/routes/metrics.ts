import type { Context } from "hono";
import type { MetricFamily, MetricName } from "../../src/base/metric-text.ts";
import {
  encodeMetrics,
  metricFamily,
  METRICS_CONTENT_TYPE,
  NO_LABELS,
  withLabel,
} from "../../src/base/metric-text.ts";
import type { PoolId } from "../../src/protocol/ids.ts";
import { authenticateAdmin } from "../auth.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { keepCountsOf, requestCounts } from "../request-counts.ts";
import { settingsOf } from "../settings.ts";
import { withinMs } from "../within-ms.ts";

/** A scrape has mostly ten seconds; objects that are not there by then are told as away. */
const ANSWER_MS_MAX = 2_000;

const DIRECTORY_UP: MetricName = {
  name: "gw_directory_up",
  type: "gauge",
  help: "1 if the Directory could be asked which pools there are",
};
const POOL_UP: MetricName = { name: "gw_pool_up", type: "gauge", help: "1 if the pool answered" };
const VERSION: MetricName = {
  name: "gw_configuration_version",
  type: "gauge",
  help: "Version of the configuration that is live",
};

/**
 * `GET /metrics`, with the admin key or one of scope `admin`. Isolates share no memory, so the numbers are kept by the pools, those
 * of requests by the Directory, and all of them are asked at once. One that does not answer in time is told as away; it hides no other.
 */
export async function tellMetrics({
  req,
  env,
  var: { arrivedAtMs },
}: Context<EdgeContext>): Promise<Response> {
  await authenticateAdmin(req.raw.headers, {
    env,
    settings: settingsOf(env),
    nowMs: arrivedAtMs,
  });
  // What this isolate has counted by now is to be told as well; the others' comes within a second.
  await withinMs(requestCounts.send(keepCountsOf(env)), ANSWER_MS_MAX).catch(() => {});
  const directory = env.DIRECTORY.getByName(DIRECTORY_NAME);
  const [summary, requests] = await Promise.all([
    withinMs(directory.summary(), ANSWER_MS_MAX).catch(() => undefined),
    withinMs(directory.metrics(), ANSWER_MS_MAX).catch(() => []),
  ]);
  const told = await Promise.all(
    (summary?.poolIds ?? []).map((poolId) => {
      const asked = env.POOLS.getByName(poolId).metrics(poolId);
      return withinMs(asked, ANSWER_MS_MAX).then(
        (families) => [upOf(poolId, 1), ...families],
        () => [upOf(poolId, 0)],
      );
    }),
  );
  const families = [
    metricFamily(DIRECTORY_UP, [{ labels: NO_LABELS, value: summary === undefined ? 0 : 1 }]),
    ...(summary === undefined
      ? []
      : [metricFamily(VERSION, [{ labels: NO_LABELS, value: summary.version }])]),
    ...requests,
    ...told.flat(),
  ];
  return new Response(encodeMetrics(families), {
    headers: { "content-type": METRICS_CONTENT_TYPE, "cache-control": "no-store" },
  });
}

function upOf(poolId: PoolId, value: 0 | 1): MetricFamily {
  return metricFamily(POOL_UP, [{ labels: withLabel(NO_LABELS, "pool", poolId), value }]);
}
