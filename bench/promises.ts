import * as z from "zod";
import { EXIT_CODES } from "../cli/command.ts";
import { flagSwitch, listFlag } from "../cli/flags.ts";
import {
  admitsTheGuaranteedUnderLastingOverload,
  admitsWhoComesBackAsTold,
  recoversFromABurst,
  wastesNoWork,
} from "../simulator/promises/burst.ts";
import type { Finding } from "../simulator/promises/finding.ts";
import { isKept } from "../simulator/promises/finding.ts";
import {
  exceedsBoundsAsOftenAsMeant,
  forgivesWhoWasRefused,
  learnsThatAReplicaIsSlower,
} from "../simulator/promises/forecast.ts";
import {
  othersKeepTheirsBesideTheFailing,
  othersKeepTheirsBesideTheNoisy,
  othersKeepTheirsBesideTheRunaway,
} from "../simulator/promises/neighbours.ts";
import {
  keepsPromisesAtTwiceTheLoad,
  servesAsMuchAsTheBestLimit,
} from "../simulator/promises/overload.ts";
import {
  findsPrefixesWithinTheBound,
  hidesABlackHole,
  leavesOutABlackHole,
  spreadsAHotPrefix,
} from "../simulator/promises/routing.ts";
import { servesLowerBands, sharesByWeight } from "../simulator/promises/sharing.ts";
import { leavesNoReplicaEmpty } from "../simulator/promises/work-conservation.ts";
import { describeMachine } from "./support/machine.ts";
import { requireKnown } from "./support/require-known.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  quick: flagSwitch("A fifth of the seeds, to see that all of it runs"),
  only: listFlag("PROMISES", "Only these, with commas between them: P4,P9"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:promises -- [flags]

Tests the promises in simulation with the numbers of seeds and of requests that they name; the tests take
fewer. The same flags give the same numbers on every machine. Prints Markdown, and exits with 1 when one
is not kept.`;

const SEEDS = 20;
const QUICK_SEEDS = 4;
const SHORT_MS = 15_000;
const LONG_MS = 40_000;
/** So long that all who were refused in a burst have come back. */
const RETRIES_MS = 75_000;
/** Bins with fewer completions are not judged. */
const SAMPLES_MIN = 5_000;

interface Test {
  readonly promise: string;
  readonly run: (seeds: number) => Finding[];
}

/** P4's run is as long as it takes until each of its seeds has admitted 250 requests of every tenant. */
const TESTS: readonly Test[] = [
  { promise: "P3", run: (seeds) => wastesNoWork({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P3", run: (seeds) => admitsWhoComesBackAsTold({ seeds, measuredMs: RETRIES_MS }) },
  {
    promise: "P3",
    run: (seeds) => admitsTheGuaranteedUnderLastingOverload({ seeds, measuredMs: LONG_MS }),
  },
  { promise: "P4", run: (seeds) => keepsPromisesAtTwiceTheLoad({ seeds, measuredMs: 20_000 }) },
  { promise: "P4", run: (seeds) => servesAsMuchAsTheBestLimit({ seeds, measuredMs: 20_000 }) },
  {
    promise: "P5",
    run: (seeds) =>
      exceedsBoundsAsOftenAsMeant({ seeds, measuredMs: LONG_MS, samplesMin: SAMPLES_MIN }),
  },
  {
    promise: "P5, engines that keep no gaps",
    run: (seeds) =>
      exceedsBoundsAsOftenAsMeant(
        { seeds, measuredMs: LONG_MS, samplesMin: SAMPLES_MIN },
        { keepsTbt: false },
      ),
  },
  { promise: "P5", run: (seeds) => learnsThatAReplicaIsSlower({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P5", run: (seeds) => forgivesWhoWasRefused({ seeds, measuredMs: LONG_MS }) },
  {
    promise: "P6",
    run: (seeds) => othersKeepTheirsBesideTheFailing({ seeds, measuredMs: LONG_MS }),
  },
  {
    promise: "P6",
    run: (seeds) => othersKeepTheirsBesideTheRunaway({ seeds, measuredMs: LONG_MS }),
  },
  {
    promise: "P8",
    run: (seeds) => othersKeepTheirsBesideTheNoisy({ seeds, measuredMs: SHORT_MS }),
  },
  { promise: "P8", run: (seeds) => sharesByWeight({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P8", run: (seeds) => servesLowerBands({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P8", run: (seeds) => leavesNoReplicaEmpty({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P9", run: (seeds) => recoversFromABurst({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P10", run: (seeds) => findsPrefixesWithinTheBound({ seeds, measuredMs: LONG_MS }) },
  { promise: "P10", run: (seeds) => spreadsAHotPrefix({ seeds, measuredMs: LONG_MS }) },
  { promise: "P11", run: (seeds) => leavesOutABlackHole({ seeds, measuredMs: SHORT_MS }) },
  { promise: "P11", run: (seeds) => hidesABlackHole({ seeds, measuredMs: SHORT_MS }) },
];

function runBenchmark(flags: Flags): string {
  const machine = describeMachine();
  const seeds = flags.quick ? QUICK_SEEDS : SEEDS;
  const tests = testsOf(flags.only);
  const results = tests.flatMap(({ promise, run }) =>
    run(seeds).map((finding) => ({ promise, finding })),
  );
  if (!results.every(({ finding }) => isKept(finding))) process.exitCode = EXIT_CODES.failure;
  return [
    "# The promises in simulation",
    "",
    `\`${commandOf(flags)}\``,
    "",
    machine,
    `- ${seeds} seeds; three or four small replicas, whose engines run the real scheduler and cache`,
    "",
    "| | | is | has to be | kept |",
    "|---|---|---:|---:|---|",
    ...results.map(({ promise, finding }) => toRow(promise, finding)),
  ].join("\n");
}

/** The tests of the promises named, or all. */
function testsOf(only: readonly string[] | undefined): readonly Test[] {
  const names = [...new Set(TESTS.map(({ promise }) => nameOf(promise)))];
  requireKnown(only, names);
  return TESTS.filter(({ promise }) => only?.includes(nameOf(promise)) ?? true);
}

const nameOf = (promise: string) => promise.replace(/,.*/u, "");

function commandOf({ quick, only }: Flags): string {
  const words = [...(quick ? ["--quick"] : []), ...(only ? ["--only", only.join(",")] : [])];
  return ["npm run bench:promises", ...(words.length > 0 ? ["--", ...words] : [])].join(" ");
}

function toRow(promise: string, finding: Finding): string {
  const bound = "atMost" in finding ? `≤ ${finding.atMost}` : `≥ ${finding.atLeast}`;
  const value = Number.isInteger(finding.value) ? finding.value : finding.value.toFixed(4);
  const kept = isKept(finding) ? "yes" : "**no**";
  return `| ${promise} | ${finding.what} | ${value} | ${bound} | ${kept} |`;
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
