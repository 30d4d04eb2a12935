import { StepModel, type StepForecast, type StepWork } from "../../src/step-cost/step-model.ts";
import { aRequest, BenchEngine, type Machine, type StepRecord } from "./bench-engine.ts";
import { medianOf } from "../support/ratio.ts";
import { somePrompt } from "./workload.ts";

const BATCHES = [1, 2, 4, 8, 12, 16, 24];
const CONTEXTS_TOKENS = [24, 130, 400];
const DECODES = 36;
/** Behind a prompt the caches are full of it; what is predicted is long runs. */
const SETTLING_DECODES = 4;
const PROMPTS_TOKENS = [17, 60, 250, 1500];

/** What a step takes in which so many sequences decode, by the KV tokens of all of them. */
interface DecodeLine {
  readonly batch: number;
  readonly fixedMs: number;
  readonly kvTokenMs: number;
}

/**
 * What steps take, measured on a grid of batches and lengths that no technique is measured with: what it
 * says of a schedule is then a prediction. Decodes are a line over KV tokens for each batch of the grid,
 * and between those what lies between; prefill beside them is what the engine's own step model makes of
 * prefills that were alone.
 */
export class StepCurve implements StepForecast {
  readonly #decodes: readonly DecodeLine[];
  readonly #prefill: StepModel;

  constructor(decodes: readonly DecodeLine[], prefill: StepModel) {
    this.#decodes = decodes;
    this.#prefill = prefill;
  }

  predictMs({ tokens, sequences, attendedPairs, kvTokens }: StepWork): number {
    const { tokenMs, attendedPairMs } = this.#prefill.coefficients;
    if (sequences === 1 && tokens > 1) {
      return this.#prefill.predictMs({ tokens, sequences, attendedPairs, kvTokens });
    }
    const extraPairs = Math.max(0, attendedPairs - kvTokens);
    const prefillMs = tokenMs * (tokens - sequences) + attendedPairMs * extraPairs;
    return this.#decodeMs(sequences, kvTokens) + prefillMs;
  }

  #decodeMs(sequences: number, kvTokens: number): number {
    const above = this.#decodes.findIndex(({ batch }) => batch >= sequences);
    const last = this.#decodes.length - 1;
    const high = this.#decodes[above === -1 ? last : above];
    const low = this.#decodes[Math.max(0, (above === -1 ? last : above) - 1)];
    if (high === undefined || low === undefined) return Number.NaN;
    const highMs = high.fixedMs + high.kvTokenMs * kvTokens;
    if (high.batch === low.batch) return highMs;
    const lowMs = low.fixedMs + low.kvTokenMs * kvTokens;
    const share = (sequences - low.batch) / (high.batch - low.batch);
    return lowMs + share * (highMs - lowMs);
  }
}

/** Measures it over so many rounds. */
export async function measureStepCurve(machine: Machine, rounds = 2): Promise<StepCurve> {
  const prefill = new StepModel({
    fixedMs: machine.speed.stepMs / 2,
    tokenMs: 1000 / machine.speed.prefillTokensPerSecond,
    attendedPairMs: 0,
    sequenceMs: 0,
    kvTokenMs: 0,
  });
  const points = new Map<string, { batch: number; kvTokens: number; samplesMs: number[] }>();
  for (let round = 0; round < rounds; round += 1) {
    for (const promptTokens of PROMPTS_TOKENS) {
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      const steps = await runBatch(machine, { batch: 1, promptTokens, outputTokens: 1 });
      for (const { work, cpuMs } of steps) prefill.record(work, cpuMs);
    }
    for (const batch of BATCHES) {
      for (const contextTokens of CONTEXTS_TOKENS) {
        const key = `${batch} of ${contextTokens}`;
        const kvTokens = batch * (contextTokens + DECODES / 2);
        const point = points.get(key) ?? { batch, kvTokens, samplesMs: [] };
        points.set(key, point);
        // oxlint-disable-next-line no-await-in-loop -- one at a time
        const steps = await runBatch(machine, {
          batch,
          promptTokens: contextTokens,
          outputTokens: DECODES,
        });
        const decodes = steps.filter(
          ({ work: { tokens, sequences } }) => tokens === batch && sequences === batch,
        );
        point.samplesMs.push(...decodes.slice(SETTLING_DECODES).map(({ cpuMs }) => cpuMs));
      }
    }
  }
  const lines = BATCHES.map((batch) => {
    const ofBatch = [...points.values()].filter((point) => point.batch === batch);
    return { batch, ...lineThrough(ofBatch.map((p) => [p.kvTokens, medianOf(p.samplesMs)])) };
  });
  return new StepCurve(lines, prefill);
}

async function runBatch(
  machine: Machine,
  asked: { readonly batch: number; readonly promptTokens: number; readonly outputTokens: number },
): Promise<StepRecord[]> {
  const bench = new BenchEngine(machine, {
    isForecast: false,
    sequencesMax: asked.batch,
    // So that the first do not end before the last have begun.
    ...(asked.batch > 1 && { batchTokensMax: machine.executor.batchTokensMax }),
  });
  for (let index = 0; index < asked.batch; index += 1) {
    bench.submit(
      aRequest({
        id: `${index}`,
        promptTokens: somePrompt(asked.promptTokens, index),
        outputTokensMax: asked.outputTokens,
      }),
    );
  }
  return bench.runToEnd();
}

/** Least squares. */
function lineThrough(points: readonly (readonly [x: number, y: number])[]) {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const products = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  const squares = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const kvTokenMs = products / squares;
  return { fixedMs: meanY - kvTokenMs * meanX, kvTokenMs };
}

/** What the curve says that steps take together. */
export function predictedMsOf(curve: StepForecast, steps: readonly StepRecord[]): number {
  return steps.reduce((sum, { work }) => sum + curve.predictMs(work), 0);
}
