import { htmlPage, htmlTable, markup } from "../report/html-page.ts";
import { svgChart } from "../report/svg-chart.ts";
import { toColumns } from "../verbs.ts";
import { noteLines } from "./note-lines.ts";
import type { PlannedPool } from "./plan-pool.ts";
import type { PoolSearch } from "./smallest-pool.ts";

/** A plan as it is told. */
export interface Plan extends PoolSearch {
  readonly title: string;
  /** What was simulated, in a sentence. */
  readonly basis: string;
  readonly replicasMax: number;
  /** The longest that a prompt and its answer may become together on a replica. */
  readonly sequenceTokensMax: number;
}

const HEADS = [
  "replicas",
  "tenant",
  "offered",
  "refused",
  "attained [95 %]",
  "good/s",
  "TTFT p99",
  "TPOT p99",
  "",
] as const;

/** Writes a plan for people. */
export function reportPlan(plan: Plan): string[] {
  return [
    plan.basis,
    "",
    ...toColumns([[...HEADS], ...plan.tried.flatMap(rowsOf)]),
    "",
    ...notesOf(plan),
    verdictOf(plan),
  ];
}

/** Writes a plan as a page with pictures, which needs nothing but itself. */
export function planPage(plan: Plan): string {
  const { tried, title } = plan;
  const names = tried[0]?.tenants.map(({ name }) => name) ?? [];
  const seriesOf = (read: (tenant: PlannedPool["tenants"][number]) => number) =>
    names.map((name, index) => ({
      name,
      points: tried.map(({ replicas, tenants }) => {
        const tenant = tenants[index];
        return [replicas, tenant === undefined ? NaN : read(tenant)] as const;
      }),
    }));
  return htmlPage(title, [
    markup`<p>${plan.basis}</p>\n<p>${verdictOf(plan)}</p>\n`,
    ...notesOf(plan).map((note) => markup`<p>${note}</p>\n`),
    svgChart({
      title: "In time, of what was admitted",
      xLabel: "replicas",
      yLabel: "%",
      series: seriesOf(({ attainmentRatio }) => 100 * (attainmentRatio ?? NaN)),
    }),
    svgChart({
      title: "Refused",
      xLabel: "replicas",
      yLabel: "%",
      series: seriesOf(({ refusedRatio }) => 100 * refusedRatio),
    }),
    svgChart({
      title: "Good requests a second",
      xLabel: "replicas",
      yLabel: "1/s",
      series: seriesOf(({ goodPerSecond }) => goodPerSecond),
    }),
    htmlTable([[...HEADS], ...tried.flatMap(rowsOf)]),
  ]);
}

/** The pool that a verdict is about: the smallest that is enough, or the largest that is not. */
const judgedPool = ({ smallest, tried }: Plan) => smallest ?? tried.at(-1);

function verdictOf(plan: Plan): string {
  const { smallest, replicasMax } = plan;
  const tenants = judgedPool(plan)?.tenants ?? [];
  const namesOf = (wanted: boolean | null) =>
    tenants.flatMap(({ name, isKept }) => (isKept === wanted ? [name] : [])).join(", ");
  const silent = namesOf(null);
  const unsaid =
    silent === ""
      ? ""
      : `; nothing was offered by ${silent} in the seconds that count: plan more --seconds, or more traffic`;
  if (smallest !== undefined) {
    const which = silent === "" ? "every promise" : "every promise that was put to the test";
    return `${smallest.replicas} replica(s) are the smallest pool that keeps ${which}${unsaid}`;
  }
  const broken = namesOf(false);
  if (broken === "") return `No promise was put to the test${unsaid}`;
  return `No pool of up to ${replicasMax} replicas keeps every promise (with ${replicasMax}: not of ${broken})${unsaid}`;
}

function notesOf(plan: Plan): string[] {
  const tenants = judgedPool(plan)?.tenants ?? [];
  return tenants.flatMap((tenant) => noteLines(tenant, plan.sequenceTokensMax));
}

function rowsOf({ replicas, tenants }: PlannedPool): string[][] {
  return tenants.map((tenant) => [
    String(replicas),
    tenant.name,
    String(tenant.offered),
    tenant.offered === 0 ? "-" : percent(tenant.refusedRatio),
    tenant.attainmentRatio === null
      ? "-"
      : `${percent(tenant.attainmentRatio)} [${(tenant.attainmentInterval ?? []).map(percent).join(", ")}]`,
    tenant.goodPerSecond.toFixed(2),
    tenant.ttftP99Ms?.toFixed(0) ?? "-",
    tenant.tpotP99Ms?.toFixed(1) ?? "-",
    tenant.isKept === null ? "NOT MEASURED" : tenant.isKept ? "kept" : "NOT KEPT",
  ]);
}

function percent(ratio: number): string {
  return `${(100 * ratio).toFixed(2)}%`;
}
