import { meanOf } from "../../simulator/statistics.ts";
import { binomialInterval } from "../../src/slo/binomial.ts";
import type { LiveRun, TenantFigures } from "./live-run.ts";

/** All that was measured. */
interface LiveResults {
  readonly machine: string;
  readonly flags: {
    readonly seconds: number;
    readonly "warm-up": number;
    readonly repeats: number;
  };
  readonly paced: {
    readonly alone: LiveRun;
    readonly repeats: readonly LiveRun[];
    readonly beside: LiveRun;
  };
  readonly simulated: {
    readonly alone: readonly TenantFigures[];
    readonly twice: readonly TenantFigures[];
    readonly beside: readonly TenantFigures[];
  };
  readonly real: LiveRun;
}

/** So far may a prediction be off, or as far as repeats are from each other. */
const TOLERANCE_RATIO = 0.15;
/** P8: so much less may be in time of those who make no noise. */
const ISOLATION_POINTS = 0.5;

const FIGURES = [
  ["good of offered, %", (each: TenantFigures) => (100 * each.good) / each.offered, 1],
  ["refused, %", (each: TenantFigures) => (100 * each.refused) / each.offered, 1],
  ["TTFT p50, ms", (each: TenantFigures) => each.ttftP50Ms, 0],
  ["TPOT p50, ms", (each: TenantFigures) => each.tpotP50Ms, 1],
] as const;

/** Lays the results out as Markdown. */
export function liveTable(results: LiveResults): string {
  const { machine, flags, paced, real } = results;
  return [
    "# Live: real processes under overload",
    "",
    `\`npm run bench:live -- --seconds ${flags.seconds} --warm-up ${flags["warm-up"]} --repeats ${flags.repeats} --write\``,
    "",
    machine,
    "",
    "The gateway under `workerd serve`, two engines with the real scheduler and KV cache whose executor sleeps as long as",
    "a modelled GPU would compute (`bench/live/paced-profile.ts`), open-loop clients over HTTP. 1× is what the pool just",
    "sustains under least outstanding, in simulation. Requests, promises and shares: `bench/live/live-tenants.ts`.",
    "",
    "## 0.7×, before anything else",
    "",
    ...runTable([["", paced.alone]]),
    "",
    `## 2×, the same requests ${paced.repeats.length} times (P3, P4)`,
    "",
    ...runTable(paced.repeats.map((run, index) => [`${index + 1}`, run])),
    "",
    ...paced.repeats.map(
      ({ answeredPromptTokens, startedPromptTokens }, index) =>
        `- P3, repeat ${index + 1}: engines began ${startedPromptTokens} prompt tokens, clients were answered to ${answeredPromptTokens}.`,
    ),
    "- P3: what engines began beyond that is of answers that were cut off, and of hedges; a refusal leaves nothing there.",
    "",
    "## chat asks for 20 times its part, the others as at 0.7× (P8)",
    "",
    ...runTable([["", paced.beside]]),
    "",
    ...isolationLines(paced.alone, paced.beside),
    "",
    "## The simulator on the same requests at 2×",
    "",
    ...comparison(results),
    "",
    "## The bundled model itself, little load",
    "",
    ...runTable([["", real]]),
    "",
  ].join("\n");
}

function runTable(runs: readonly (readonly [string, LiveRun])[]): string[] {
  return [
    "| | tenant | offered | refused | of these 503 | failed | in time of admitted, % [95 %] | TTFT p50 / p99, ms | TPOT p50, ms |",
    "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ...runs.flatMap(([name, { tenants, keptUp }]) =>
      tenants.map((tenant) => {
        const { offered, refused, refusedInProfile, failed, good, judged } = tenant;
        const [low, high] = judged === 0 ? [NaN, NaN] : binomialInterval(good, judged);
        return `| ${name}${keptUp ? "" : " (sender late)"} | ${[
          tenant.name,
          offered,
          refused,
          refusedInProfile,
          failed,
          `${fixed((100 * good) / judged, 2)} [${fixed(100 * low, 2)}, ${fixed(100 * high, 2)}]`,
          `${fixed(tenant.ttftP50Ms)} / ${fixed(tenant.ttftP99Ms)}`,
          fixed(tenant.tpotP50Ms, 1),
        ].join(" | ")} |`;
      }),
    ),
  ];
}

function isolationLines(alone: LiveRun, beside: LiveRun): string[] {
  return alone.tenants.flatMap((before, index) => {
    const after = beside.tenants[index];
    if (after === undefined || before.name === "chat") return [];
    const points = (100 * after.good) / after.judged - (100 * before.good) / before.judged;
    const verdict = points >= -ISOLATION_POINTS ? "kept" : "NOT kept";
    return [
      `- P8, ${before.name}: in time ${fixed(points, 2)} points beside the noise against alone, ${after.refusedInProfile} refused by 503: ${verdict}.`,
    ];
  });
}

function comparison({ paced, simulated }: LiveResults): string[] {
  const rows = simulated.twice.flatMap((told, index) =>
    FIGURES.map(([name, read, digits]) => {
      const seen = paced.repeats.flatMap(({ tenants }) => tenants[index] ?? []).map(read);
      const mean = meanOf(seen);
      const spread = Math.max(...seen) - Math.min(...seen);
      const off = Math.abs(read(told) - mean);
      const isWithin = off <= Math.max(TOLERANCE_RATIO * mean, spread);
      return `| ${[
        told.name,
        name,
        seen.map((value) => fixed(value, digits)).join(", "),
        fixed(read(told), digits),
        `${fixed((100 * off) / mean, 1)} %`,
        isWithin ? "within" : "NOT within",
      ].join(" | ")} |`;
    }),
  );
  return [
    `A prediction is within where it is off by at most ${100 * TOLERANCE_RATIO} % of the mean, or by the spread of the repeats.`,
    "",
    "| tenant | figure | live, each repeat | simulated | off by | |",
    "|---|---|---:|---:|---:|---|",
    ...rows,
  ];
}

function fixed(value: number, digits = 0): string {
  return Number.isFinite(value) ? value.toFixed(digits) : "–";
}
