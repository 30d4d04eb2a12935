import { htmlPage, htmlTable, markup } from "../report/html-page.ts";
import type { Markup } from "../report/html-page.ts";
import { svgChart } from "../report/svg-chart.ts";
import type { LoadResult } from "./load-result.ts";
import { TENANT_HEADS, tenantRows, warningsOf } from "./report-load.ts";
import { failuresText } from "./reason-counts.ts";
import type { RateSweep } from "./sweep-rates.ts";

/** A result as a page with pictures, which needs nothing but itself. */
export function loadPage(result: LoadResult): string {
  return htmlPage(`Load on ${result.model_id}`, sectionsOf(result));
}

/** A sweep as a page: attainment and latency by rate, then the result at the knee. */
export function sweepPage({ points, knee, target }: RateSweep): string {
  const results = points.map(({ result }) => result);
  const model = results[0]?.model_id ?? "";
  const atKnee = points.find(({ rate }) => rate === knee);
  const verdict =
    knee === null
      ? `No rate kept ${100 * target} % of what was offered good.`
      : `${knee.toFixed(2)} requests/s is the highest rate tried at which ${100 * target} % of what was offered was good.`;
  return htmlPage(`Rate sweep on ${model}`, [
    markup`<p>${verdict}</p>\n`,
    svgChart({
      title: "Good of what was offered",
      xLabel: "offered requests/s",
      yLabel: "%",
      series: [
        {
          name: "all tenants",
          points: points.map(({ rate, result }) => [
            rate,
            100 * (result.attainment_offered ?? NaN),
          ]),
        },
      ],
    }),
    svgChart({
      title: "TTFT p99",
      xLabel: "offered requests/s",
      yLabel: "ms",
      isLogarithmic: true,
      series: (results[0]?.tenants ?? []).map(({ name }, index) => ({
        name,
        points: points.map(({ rate, result }) => [rate, result.tenants[index]?.ttft_ms.p99 ?? NaN]),
      })),
    }),
    ...(atKnee === undefined ? [] : [markup`<h2>At the knee</h2>\n`, ...sectionsOf(atKnee.result)]),
  ]);
}

function sectionsOf(result: LoadResult): Markup[] {
  const { tenants, requests } = result;
  const own = (index: number) => requests.filter(({ tenant }) => tenant === index);
  const what =
    `${result.date}, seed ${result.seed}: ${result.offered} requests due in ${result.duration.toFixed(1)} s, ` +
    `${result.completed} answered, ${result.rejected} refused, ` +
    `${failuresText(result.failed - result.rejected, result.failures)}. Times count from when a request was due.`;
  return [
    markup`<p>${what}</p>\n`,
    ...warningsOf(result).map((warning) => markup`<p class="warning">${warning}</p>\n`),
    htmlTable([[...TENANT_HEADS], ...tenantRows(result)]),
    svgChart({
      title: "TTFT of each request",
      xLabel: "due after s",
      yLabel: "ms",
      isScattered: true,
      isLogarithmic: true,
      series: tenants.map(({ name }, index) => ({
        name,
        points: own(index).map(({ due_s: dueSeconds, ttft_ms: ttftMs }) => [
          dueSeconds,
          ttftMs ?? NaN,
        ]),
      })),
    }),
    ...(["ttft_ms", "tpot_ms"] as const).map((metric) =>
      svgChart({
        title: `Share of admitted requests within ${metric === "ttft_ms" ? "TTFT" : "TPOT"}`,
        xLabel: "ms",
        yLabel: "%",
        series: tenants.map(({ name }, index) => ({ name, points: shares(own(index), metric) })),
      }),
    ),
  ];
}

/** The distribution of a metric, in which failures never arrive. */
function shares(
  requests: LoadResult["requests"],
  metric: "ttft_ms" | "tpot_ms",
): [number, number][] {
  const admitted = requests.filter(({ ending }) => ending === "answered" || ending === "failed");
  return admitted
    .map((request) => request[metric] ?? Infinity)
    .toSorted((a, b) => a - b)
    .map((value, index) => [value, (100 * (index + 1)) / admitted.length]);
}
