import { svgChart } from "../../cli/report/svg-chart.ts";
import { seededRandom } from "../../src/base/random.ts";
import { bootstrapInterval, meanOf } from "../../simulator/statistics.ts";
import { OURS } from "./policy-contenders.ts";
import type { Contender, Scenario, SeedOutcome, TenantCounts } from "./policy-run.ts";
import { keptRatio } from "./policy-run.ts";
import { loadOf, LOADS } from "./policy-scenarios.ts";

const ACCEPTANCE_MIN = 0.999;

/** What one of them came to in one experiment. */
export interface Row {
  readonly contender: Contender;
  readonly outcomes: readonly SeedOutcome[];
  readonly goodCostRatio: number;
  readonly acceptanceRatio: number;
}

export function rowOf(contender: Contender, outcomes: readonly SeedOutcome[]): Row {
  return {
    contender,
    outcomes,
    goodCostRatio: meanOf(outcomes.map((outcome) => outcome.goodCostRatio)),
    acceptanceRatio: acceptanceOf(outcomes),
  };
}

/** Who keeps what is guaranteed comes before who does not; then the good cost counts. */
export function isBetter(a: Row, b: Row): boolean {
  const [keepsA, keepsB] = [a, b].map(({ acceptanceRatio }) => acceptanceRatio >= ACCEPTANCE_MIN);
  if (keepsA !== keepsB) return keepsA === true;
  return a.goodCostRatio > b.goodCostRatio;
}

/** What all of it rests on. */
interface TableBasis {
  /** The file with the picture; absent where there is none. */
  readonly picture: string | undefined;
  readonly tuned: readonly Contender[];
  readonly tuningLoads: readonly number[];
  readonly tuningSeed: number;
  readonly seconds: number;
  readonly warmUpMs: number;
}

/** What the table says before its sections. */
export function headOf(
  command: string,
  { picture, tuned, tuningLoads, tuningSeed, seconds, warmUpMs }: TableBasis,
): string[] {
  const knobs = tuned.filter(({ knob }) => knob !== "").map(({ name, knob }) => `${name} ${knob}`);
  return [
    "# Policies compared in simulation",
    "",
    `\`npm run bench -- ${command} --write\` made this; \`--check\` instead of \`--write\` makes it again, byte for byte.`,
    "",
    ...(picture === undefined ? [] : [`![good cost by load](${picture})`, ""]),
    `- Three small engines (\`simulator/promises/small-pool.ts\`), three tenants; each seed ${seconds} s behind ${warmUpMs / 1000} s of warm-up. 1× is what least outstanding just sustains.`,
    "- **good cost**: what requests that kept every target are worth, each by its own cost, as a part of all the pool's time; [95 % bootstrap interval over seeds].",
    "- **guaranteed work accepted**: of the work that was within a tenant's guarantee, reckoned from what it asked for alone and alike for all, how much of that tenant's was admitted.",
    "- Ranked by good cost among those that accept 99.9 % of it; the others stand below, and why is in that column.",
    "- Where clients come back, each of their tries is a request.",
    "- Attainment is of what was admitted: 0 % good cost with 100 % accepted is a queue that is never in time.",
    `- Settings, chosen by their mean at ${tuningLoads.join("× and ")}× on seed ${tuningSeed} by the same measure: ${knobs.join("; ")}.`,
  ];
}

/** In each experiment ours beside the best of the others that keep what is guaranteed. */
export function summaryOf(rowsOf: ReadonlyMap<Scenario, readonly Row[]>): string[] {
  const lines = [...rowsOf].flatMap(([{ name }, rows]) => {
    const ours = rows.find(({ contender }) => contender.name === OURS);
    const others = rows.filter((row) => row !== ours).toSorted(byRank);
    const [best] = others;
    if (ours === undefined || best === undefined) return [];
    const gaps = ours.outcomes.map(
      ({ goodCostRatio }, seed) => goodCostRatio - (best.outcomes[seed]?.goodCostRatio ?? NaN),
    );
    const { low, high } = bootstrapInterval(gaps, meanOf, seededRandom(1));
    const cells = [
      percent(ours.goodCostRatio),
      keptText(ours),
      `${best.contender.name}: ${percent(best.goodCostRatio)}`,
      keptText(best),
      `${percent(meanOf(gaps))} [${percent(low)}, ${percent(high)}]`,
    ];
    return [`| ${name} | ${cells.join(" | ")} |`];
  });
  return [
    "",
    "## Beside the best of the others",
    "",
    "The best is chosen anew in each experiment, after the fact; pairs of the same seed.",
    "",
    "| | Sluice: good cost, % | guaranteed work accepted, % | best other: good cost, % | guaranteed work accepted, % | difference, points |",
    "|---|---:|---:|---|---:|---:|",
    ...lines,
  ];
}

/** One experiment, the best first. */
export function sectionOf(scenario: Scenario, rows: readonly Row[]): string[] {
  const ranked = rows.toSorted(byRank);
  const names = scenario.workload.tenants.map(({ profile }) => profile.name);
  const victims = names.filter((name) => name !== scenario.culprit);
  return [
    "",
    `## ${scenario.name}`,
    "",
    `${rows[0]?.outcomes.length ?? 0} seeds.`,
    "",
    `| | good cost, % | guaranteed work accepted, % | attainment, % | ${names.map((name) => `${name}: attainment / refused / good of offered, %`).join(" | ")} |${scenario.culprit === undefined ? "" : " worst victim good, % |"}`,
    `|---|---:|---:|---:|${names.map(() => "---:|").join("")}${scenario.culprit === undefined ? "" : "---:|"}`,
    ...ranked.map((row) => {
      const { contender, outcomes, goodCostRatio } = row;
      const tenants = names.map((_, index) => summed(outcomes, [index]));
      const all = summed(
        outcomes,
        names.map((_, index) => index),
      );
      const worst = Math.min(
        ...victims.map((name) => shareOf(tenants[names.indexOf(name)], "good", "offered")),
      );
      const cells = [
        `${percent(goodCostRatio)} ${intervalOf(outcomes)}`,
        keptText(row),
        percent(shareOf(all, "good", "judged"), 2),
        ...tenants.map((tenant) =>
          [
            percent(shareOf(tenant, "good", "judged")),
            percent(shareOf(tenant, "refused", "offered")),
            percent(shareOf(tenant, "good", "offered")),
          ].join(" / "),
        ),
        ...(scenario.culprit === undefined ? [] : [percent(worst)]),
      ];
      return `| ${contender.name} | ${cells.join(" | ")} |`;
    }),
  ];
}

/** All that were compared by load; `undefined` where there are not two loads. */
export function pictureOf(rowsOf: ReadonlyMap<Scenario, readonly Row[]>): string | undefined {
  const byLoad = LOADS.flatMap((load) => {
    const found = [...rowsOf].find(([{ id }]) => id === loadOf(load).id);
    return found === undefined ? [] : [{ load, rows: found[1] }];
  });
  if (byLoad.length < 2) return undefined;
  const names = byLoad[0]?.rows.map(({ contender }) => contender.name) ?? [];
  const { source } = svgChart({
    title: "Good cost by load",
    xLabel: "load, of what least outstanding sustains",
    yLabel: "%",
    series: names.map((name, index) => ({
      name: name === OURS ? "Sluice" : name,
      points: byLoad.map(({ load, rows }) => [load, 100 * (rows[index]?.goodCostRatio ?? NaN)]),
    })),
  });
  return source.replace(
    "<svg ",
    '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" ',
  );
}

function summed(outcomes: readonly SeedOutcome[], indexes: readonly number[]): TenantCounts {
  const counts = outcomes.flatMap(({ tenants }) =>
    indexes.flatMap((index) => tenants[index] ?? []),
  );
  const sum = (read: (each: TenantCounts) => number) =>
    counts.reduce((total, each) => total + read(each), 0);
  return {
    offered: sum(({ offered }) => offered),
    refused: sum(({ refused }) => refused),
    judged: sum(({ judged }) => judged),
    good: sum(({ good }) => good),
    goodCostMs: sum(({ goodCostMs }) => goodCostMs),
    admittedCostMs: sum(({ admittedCostMs }) => admittedCostMs),
    inProfileCostMs: sum(({ inProfileCostMs }) => inProfileCostMs),
  };
}

/** Seeds and tenants are counted one by one: what one got does not make up for what another did not. */
function acceptanceOf(outcomes: readonly SeedOutcome[]): number {
  return outcomes.length === 0 ? 1 : keptRatio(outcomes.flatMap(({ tenants }) => tenants));
}

function shareOf(
  counts: TenantCounts | undefined,
  part: keyof TenantCounts,
  whole: keyof TenantCounts,
): number {
  return counts === undefined || counts[whole] === 0 ? NaN : counts[part] / counts[whole];
}

function intervalOf(outcomes: readonly SeedOutcome[]): string {
  const ratios = outcomes.map(({ goodCostRatio }) => goodCostRatio);
  const { low, high } = bootstrapInterval(ratios, meanOf, seededRandom(1));
  return `[${percent(low)}, ${percent(high)}]`;
}

const byRank = (a: Row, b: Row) => (isBetter(a, b) ? -1 : isBetter(b, a) ? 1 : 0);

function keptText({ acceptanceRatio }: Row): string {
  return `${percent(acceptanceRatio, 2)}${acceptanceRatio >= ACCEPTANCE_MIN ? "" : " ✗"}`;
}

function percent(ratio: number, digits = 1): string {
  return Number.isFinite(ratio) ? (100 * ratio).toFixed(digits) : "–";
}

/** What the table does not have is said in it. */
export function leftOf(left: readonly Scenario[]): string[] {
  if (left.length === 0) return [];
  return [
    "",
    "## Not in this table",
    "",
    "`--only` left these out; without it they are made as well:",
    "",
    ...left.map(({ id, name }) => `- \`${id}\`: ${name}`),
  ];
}
