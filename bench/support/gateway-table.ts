import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { bootstrapInterval, meanOf, quantileOf } from "../../simulator/statistics.ts";
import type { Timing } from "./timed-request.ts";
import type { Way } from "./ways.ts";

/** One request on one way. */
export interface Sample extends Timing {
  /** CPU time that what lies on the way used for it; NaN where nothing does, or nobody knows. */
  readonly cpuMs: number;
}

/** One prompt on all ways. */
export interface Round {
  readonly isLong: boolean;
  readonly samples: ReadonlyMap<Way["name"], Sample>;
}

type Name = Way["name"];

const ALONE: Name = "engine alone";
const LEAST: Name = "pass-through Worker";
const OURS: Name = "Sluice";

/** How long answers take on each way, and how much longer than on the way straight to the engine. */
export function latencyTable(rounds: readonly Round[], random: Random): readonly string[] {
  const short = rounds.filter(({ isLong }) => !isLong);
  const others = namesOf(rounds).filter((name) => name !== ALONE);
  const row = (name: Name, against: Name, title: string) => {
    const cells = FIGURES.map(({ figure, ratio }) => {
      const addedOf = (some: readonly Round[]) =>
        quantileOf(valuesOf(some, name, figure), ratio) -
        quantileOf(valuesOf(some, against, figure), ratio);
      return withInterval(short, addedOf, random, 2);
    });
    return `| ${title} | ${cells.join(" | ")} |`;
  };
  const alone = FIGURES.map(({ figure, ratio }) =>
    quantileOf(valuesOf(short, ALONE, figure), ratio).toFixed(2),
  );
  return [
    "| ms [95 % interval] | TTFT p50 | TTFT p99 | whole answer p50 | whole answer p99 |",
    "|---|---|---|---|---|",
    `| ${ALONE} | ${alone.join(" | ")} |`,
    ...others.map((name) => row(name, ALONE, `added by ${nameOf(name)}`)),
    row(OURS, LEAST, `**${OURS} over the ${LEAST}**`),
  ];
}

/** What CPU time each way takes, told apart by answers of two lengths. */
export function cpuTable(rounds: readonly Round[], random: Random): readonly string[] {
  const measured = namesOf(rounds).filter((name) =>
    rounds.every(({ samples }) => Number.isFinite(samples.get(name)?.cpuMs)),
  );
  if (measured.length === 0) return ["CPU time was not measured: this system has no `/proc`."];
  return [
    "| CPU time [95 % interval] | a request without its tokens, ms | a token, µs |",
    "|---|---|---|",
    ...measured.map((name) => {
      const perRequest = withInterval(rounds, (some) => costsOf(some, name).requestMs, random, 2);
      const perToken = withInterval(
        rounds,
        (some) => 1000 * costsOf(some, name).tokenMs,
        random,
        0,
      );
      return `| ${name} | ${perRequest} | ${perToken} |`;
    }),
  ];
}

const FIGURES = [
  { figure: "firstTokenMs", ratio: 0.5 },
  { figure: "firstTokenMs", ratio: 0.99 },
  { figure: "totalMs", ratio: 0.5 },
  { figure: "totalMs", ratio: 0.99 },
] as const;

/** The line through the means of short and long answers. */
function costsOf(rounds: readonly Round[], name: Name): { requestMs: number; tokenMs: number } {
  const [short, long] = [false, true].map((wanted) => {
    const some = rounds.filter(({ isLong }) => isLong === wanted);
    return {
      cpuMs: meanOf(valuesOf(some, name, "cpuMs")),
      chunks: meanOf(valuesOf(some, name, "chunks")),
    };
  });
  assert(short !== undefined && long !== undefined, "there are two lengths");
  const tokenMs = (long.cpuMs - short.cpuMs) / (long.chunks - short.chunks);
  return { requestMs: short.cpuMs - tokenMs * short.chunks, tokenMs };
}

function withInterval(
  rounds: readonly Round[],
  figureOf: (rounds: readonly Round[]) => number,
  random: Random,
  digits: number,
): string {
  const { low, high } = bootstrapInterval(rounds, figureOf, random);
  return `**${figureOf(rounds).toFixed(digits)}** [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
}

function valuesOf(rounds: readonly Round[], name: Name, figure: keyof Sample): readonly number[] {
  return rounds.map(({ samples }) => samples.get(name)?.[figure] ?? Number.NaN);
}

function namesOf([first]: readonly Round[]): readonly Name[] {
  const order: readonly Name[] = [ALONE, LEAST, OURS, "Portkey gateway"];
  return order.filter((name) => first?.samples.has(name) === true);
}

const nameOf = (name: Name) => (name === OURS ? OURS : `the ${name}`);
