import type { Sampling } from "../../gpu-backend/engine/generate-request.ts";
import type { Random } from "../../src/base/random.ts";
import { type Figure, ratioOf } from "../support/ratio.ts";
import { shuffle } from "../support/shuffle.ts";
import { type EngineSide, GREEDY, PROMPT_SEQUENCE, type SideLimits, TOP_P } from "./engine-side.ts";

/** Decoding starts behind a prompt of this length. */
export const PROMPT_TOKENS = 128;
/** What is measured, and how much of it. */
export interface Extent {
  readonly decodeSequences: readonly number[];
  readonly decodeSteps: number;
  readonly prefillTokens: readonly number[];
}
/** The first runs are slower: the machine code of the kernels is still being made. */
const WARM_UP_REPEATS = 1;
const TOP_P_SEQUENCES = 16;

/** One thing that is measured; `run` returns how many tokens it was. */
export interface Workload {
  readonly name: string;
  run(side: EngineSide): Promise<number>;
}

export function workloadsOf(extent: Extent): readonly Workload[] {
  const { decodeSequences, decodeSteps, prefillTokens } = extent;
  return [
    ...decodeSequences.map((count) => decodeWorkload(count, decodeSteps, GREEDY)),
    decodeWorkload(TOP_P_SEQUENCES, decodeSteps, TOP_P),
    ...prefillTokens.map((count) => ({
      name: `prefill, ${count} tokens`,
      run: (side: EngineSide) => prefill(side, count),
    })),
  ];
}

/** What every side must have room for. */
export function limitsOf({ decodeSequences, decodeSteps, prefillTokens }: Extent): SideLimits {
  return {
    promptTokensMax: Math.max(...prefillTokens),
    sequencesMax: Math.max(...decodeSequences),
    sequenceTokensMax: PROMPT_TOKENS + decodeSteps,
  };
}

/** Tokens per second of one run. */
export interface Speed {
  readonly perSecond: number;
  /** By the time the processor gave us: what others on the machine take does not count. */
  readonly perCpuSecond: number;
}

/** For each workload and side the speeds of all repetitions, in their order. */
export type Speeds = ReadonlyMap<Workload, ReadonlyMap<EngineSide, Speed[]>>;

/**
 * Runs every workload on every side, over and over. Sides take turns in random order within a
 * repetition, so that a disturbance of the machine hits all of them alike.
 */
export async function measureSides(
  sides: readonly EngineSide[],
  options: { readonly extent: Extent; readonly repeats: number; readonly random: Random },
): Promise<Speeds> {
  const { extent, repeats, random } = options;
  for (const side of sides) await computePrompts(side, extent);
  const speeds = new Map(
    workloadsOf(extent).map((workload) => [
      workload,
      new Map(sides.map((side): [EngineSide, Speed[]] => [side, []])),
    ]),
  );
  for (let repeat = -WARM_UP_REPEATS; repeat < repeats; repeat++) {
    for (const [workload, bySide] of speeds) {
      for (const side of shuffle(sides, random)) {
        const speed = await measure(() => workload.run(side));
        if (repeat >= 0) bySide.get(side)?.push(speed);
      }
    }
  }
  return speeds;
}

async function measure(run: () => Promise<number>): Promise<Speed> {
  const cpuAtStart = process.cpuUsage();
  const startedAtMs = performance.now();
  const tokens = await run();
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { user, system } = process.cpuUsage(cpuAtStart);
  return { perSecond: tokens / seconds, perCpuSecond: (tokens / (user + system)) * 1e6 };
}

/** How many times as fast as another one a side is, by CPU time. */
export function speedRatioOf(
  side: readonly Speed[],
  other: readonly Speed[],
  random: Random,
): Figure {
  const [above, below] = [side, other].map((speeds) =>
    speeds.map(({ perCpuSecond }) => perCpuSecond),
  );
  return ratioOf(above ?? [], below ?? [], random);
}

/** Any text costs the same, so the tokens follow one another in a fixed order. */
function promptOf(tokenCount: number): number[] {
  return Array.from({ length: tokenCount }, (_, index) => 300 + ((index * 37) % 3000));
}

/** Fills the KV of every sequence's prompt; decoding goes back to its end. */
export async function computePrompts(side: EngineSide, extent: Extent): Promise<void> {
  const tokens = promptOf(PROMPT_TOKENS);
  for (let sequence = 1; sequence <= Math.max(...extent.decodeSequences); sequence++) {
    side.rewind(sequence, 0);
    await side.step([{ sequence, startPosition: 0, tokens }], GREEDY);
  }
}

function decodeWorkload(count: number, steps: number, sampling: Sampling): Workload {
  const suffix = sampling === GREEDY ? "" : `, top-p ${sampling.topP}`;
  return {
    name: `decode, batch ${count}${suffix}`,
    run: async (side) => {
      const sequences = Array.from({ length: count }, (_, index) => 1 + index);
      for (const sequence of sequences) side.rewind(sequence, PROMPT_TOKENS);
      let next = sequences.map((sequence) => 300 + sequence);
      for (let step = 0; step < steps; step++) {
        const startPosition = PROMPT_TOKENS + step;
        const parts = sequences.map((sequence, index) => {
          return { sequence, startPosition, tokens: [next[index] ?? 0] };
        });
        next = await side.step(parts, sampling);
      }
      return count * steps;
    },
  };
}

async function prefill(side: EngineSide, tokenCount: number): Promise<number> {
  const sequence = PROMPT_SEQUENCE;
  side.rewind(sequence, 0);
  await side.step([{ sequence, startPosition: 0, tokens: promptOf(tokenCount) }], GREEDY);
  return tokenCount;
}
