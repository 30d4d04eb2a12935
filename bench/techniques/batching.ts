import { seededRandom } from "../../src/base/random.ts";
import type { StepForecast } from "../../src/step-cost/step-model.ts";
import { aRequest, BenchEngine, cpuMsOf, type StepRecord } from "./bench-engine.ts";
import { ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { measureStepCurve, predictedMsOf } from "./step-curve.ts";
import { takeTurns } from "./take-turns.ts";
import { someLength, somePrompt } from "./workload.ts";

const REQUESTS = 64;
const BATCH = 16;
const PROMPT_TOKENS = 16;
const OUTPUT_MEAN_TOKENS = 24;
const OUTPUT_MAX_TOKENS = 160;

const random = seededRandom(7);
const LENGTHS = Array.from({ length: REQUESTS }, () =>
  someLength(OUTPUT_MEAN_TOKENS, OUTPUT_MAX_TOKENS, random),
);
const USEFUL_TOKENS = LENGTHS.reduce((sum, length) => sum + length, 0);

/** How requests are put together: `all` at once, or the next batch when the last has ended. */
interface Way {
  readonly name: string;
  readonly batch: number;
  readonly waitsForBatch: boolean;
  /** Whoever has ended is computed on until the longest of its batch has. */
  readonly isPadded?: boolean;
}

const WAYS: Readonly<Record<"alone" | "padded" | "compacting" | "continuous", Way>> = {
  alone: { name: "one at a time", batch: 1, waitsForBatch: false },
  padded: { name: "static, padded", batch: BATCH, waitsForBatch: true, isPadded: true },
  compacting: { name: "static, compacting", batch: BATCH, waitsForBatch: true },
  continuous: { name: "continuous", batch: BATCH, waitsForBatch: false },
};

export const BATCHING: Section = {
  title: "Continuous batching",
  published:
    "Orca 2022: 36.9 times FasterTransformer at equal latency, GPT-3 175B on A100s. At equal batch and exponential lengths, where a step costs the same whatever is in it, a padded batch of 16 wastes all but 1/H₁₆ = 1/3.4",
  how: `${REQUESTS} requests, ${PROMPT_TOKENS} tokens of prompt, outputs exponential with mean ${OUTPUT_MEAN_TOKENS}, at most ${OUTPUT_MAX_TOKENS}; useful tokens a second, ratio of pairs`,
  why: "Here a row that is computed costs its share, so that compacting wastes little: a step of 2 is not as long as one of 16. On a GPU whose step costs the same at 2 and at 16 all three of our numbers against continuous would be larger, and that is where Orca's come from",
  predicts: false,
  measure,
};

/** What one side comes to in a round; steps are the same in each, since nothing is decided by time. */
type Sample =
  | { readonly kind: "run"; readonly steps: readonly StepRecord[] }
  | { readonly kind: "curve"; readonly curve: StepForecast };

/** The step curve takes its turn too: what others leave of the machine's caches changes by the minute. */
const CURVE = { name: "step curve" };

async function measure({ machine, repeats, random: order }: Conditions): Promise<Row[]> {
  const ways = Object.values(WAYS);
  const sides: readonly (Way | typeof CURVE)[] = [...ways, CURVE];
  const samplesOf = await takeTurns(
    sides,
    { repeats, random: order },
    async (side): Promise<Sample> =>
      "batch" in side
        ? { kind: "run", steps: await run(machine, side) }
        : { kind: "curve", curve: await measureStepCurve(machine, 1) },
  );
  const curves = samplesOf(CURVE).flatMap((sample) =>
    sample.kind === "curve" ? [sample.curve] : [],
  );
  const stepsOf = (way: Way) =>
    samplesOf(way).flatMap((sample) => (sample.kind === "run" ? [sample.steps] : []));
  const measured = (way: Way) => stepsOf(way).map((steps) => USEFUL_TOKENS / cpuMsOf(steps));
  const predicted = (way: Way) =>
    stepsOf(way).flatMap((steps, round) => {
      const curve = curves[round];
      return curve === undefined ? [] : [USEFUL_TOKENS / predictedMsOf(curve, steps)];
    });
  return ways.slice(0, -1).map((way) => ({
    what: `continuous against ${way.name}`,
    ours: show(ratioOf(measured(WAYS.continuous), measured(way), order)),
    predicted: show(ratioOf(predicted(WAYS.continuous), predicted(way), order)),
  }));
}

async function run(
  machine: Conditions["machine"],
  { batch, waitsForBatch, isPadded = false }: Way,
): Promise<StepRecord[]> {
  const bench = new BenchEngine(machine, { sequencesMax: batch, isForecast: false });
  const steps: StepRecord[] = [];
  const groupSize = waitsForBatch ? batch : REQUESTS;
  for (let start = 0; start < REQUESTS; start += groupSize) {
    const lengths = LENGTHS.slice(start, start + groupSize);
    const longest = Math.max(...lengths);
    for (const [index, length] of lengths.entries()) {
      bench.submit(
        aRequest({
          id: `${start + index}`,
          promptTokens: somePrompt(PROMPT_TOKENS, start + index),
          outputTokensMax: isPadded ? longest : length,
        }),
      );
    }
    // oxlint-disable-next-line no-await-in-loop -- the next batch waits for this one
    steps.push(...(await bench.runToEnd()));
  }
  return steps;
}
