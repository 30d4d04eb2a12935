import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import { quantileOf } from "../../simulator/statistics.ts";
import { aRequest, BenchEngine } from "./bench-engine.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";
import { somePrompt } from "./workload.ts";

const PROMPT_TOKENS = 1500;
const WHOLE_TOKENS = 2048;
const DECODING = 8;
/** Gaps of the answers that run, between the arrival of a long prompt and the next. */
const STEPS_APART = 40;
const LONG_PROMPTS = 2;
const TARGET_MS = 25;

interface Side {
  readonly name: string;
  readonly options: Partial<EngineOptions>;
  /** Of those that decode. */
  readonly tbtTargetMs?: number;
}

const WHOLE: Side = {
  name: "whole",
  options: { chunkedPrefill: false, batchTokensMax: WHOLE_TOKENS },
};
const CHUNKED: readonly Side[] = [
  ...[256, 128, 64].map((batchTokensMax) => ({
    name: `chunks of ${batchTokensMax} tokens a step`,
    options: { batchTokensMax },
  })),
  {
    name: `chunks that keep a TBT of ${TARGET_MS} ms`,
    options: { keepsTbt: true, batchTokensMax: 256 },
    tbtTargetMs: TARGET_MS,
  },
];

/** What the answers that ran and the long prompts had of one run. */
interface Run {
  readonly gapP99Ms: number;
  readonly ttftMs: number;
}

export const CHUNKED_PREFILL: Section = {
  title: "Chunked prefill",
  published:
    "Sarathi-Serve 2024: 2.6 times the load of vLLM under a target for the p99 of TBT, Mistral 7B on one A100, 5.6 times with Falcon 180B; chunks of 512 tokens where the target is strict",
  how: `${DECODING} answers run, and every ${STEPS_APART} steps a prompt of ${PROMPT_TOKENS} tokens comes: the p99 of their gaps, whole prompts over chunks, and what the prompts' first tokens pay for it`,
  why: "A gap is one step, and a step as long as what is in it: a chunk of c tokens leaves about c / prompt of it. Each chunk pays the step's fixed cost and the decodes beside it once more, which is what the first token is later by",
  predicts: true,
  measure,
};

async function measure({ machine, curve, repeats, random }: Conditions): Promise<Row[]> {
  const sides = [WHOLE, ...CHUNKED];
  const runsOf = await takeTurns(sides, { repeats, random }, async (side) => run(machine, side));
  const whole = runsOf(WHOLE);
  const prompt = { attendedPairs: (PROMPT_TOKENS * (PROMPT_TOKENS + 1)) / 2, sequences: 1 };
  const wholeMs = curve.predictMs({ tokens: PROMPT_TOKENS, kvTokens: PROMPT_TOKENS, ...prompt });
  return CHUNKED.map((side) => {
    const runs = runsOf(side);
    const gaps = ratioOf(
      whole.map(({ gapP99Ms }) => gapP99Ms),
      runs.map(({ gapP99Ms }) => gapP99Ms),
      random,
    );
    const ttft = ratioOf(
      runs.map(({ ttftMs }) => ttftMs),
      whole.map(({ ttftMs }) => ttftMs),
      random,
    );
    const p99Ms = medianOf(runs.map(({ gapP99Ms }) => gapP99Ms)).toFixed(0);
    const wholeP99Ms = medianOf(whole.map(({ gapP99Ms }) => gapP99Ms)).toFixed(0);
    const chunkTokens = side.tbtTargetMs === undefined ? side.options.batchTokensMax : undefined;
    return {
      what: side.name,
      ours: `p99 of TBT ${show(gaps, 1)} × shorter (${wholeP99Ms} → ${p99Ms} ms), TTFT ${show(ttft)} ×`,
      ...(chunkTokens !== undefined && {
        predicted: `${(wholeMs / lastChunkMs(curve, chunkTokens)).toFixed(1)} × shorter`,
      }),
    };
  });
}

/** The longest step of a prompt in chunks is its last whole one, which attends to all before it. */
function lastChunkMs(curve: Conditions["curve"], budgetTokens: number): number {
  const tokens = budgetTokens - DECODING;
  const before = PROMPT_TOKENS - tokens;
  const attendedPairs = tokens * before + (tokens * (tokens + 1)) / 2;
  return curve.predictMs({ tokens, attendedPairs, sequences: 1, kvTokens: PROMPT_TOKENS });
}

async function run(machine: Conditions["machine"], side: Side): Promise<Run> {
  const bench = new BenchEngine(machine, {
    ...side.options,
    isForecast: side.options.keepsTbt === true,
  });
  for (let index = 0; index < DECODING; index += 1) {
    bench.submit(
      aRequest({
        id: `decode-${index}`,
        promptTokens: somePrompt(32, index),
        outputTokensMax: 2 * STEPS_APART * LONG_PROMPTS + 200,
        ...(side.tbtTargetMs !== undefined && { tbtTargetMs: side.tbtTargetMs }),
      }),
    );
  }
  for (let step = 0; step < DECODING + 4; step += 1) await bench.step();
  const gapsMs: number[] = [];
  const ttftsMs: number[] = [];
  for (let prompt = 0; prompt < LONG_PROMPTS; prompt += 1) {
    const id = `long-${prompt}`;
    const arrivedAtMs = bench.nowMs;
    const promptTokens = somePrompt(PROMPT_TOKENS, 100 + prompt);
    bench.submit(aRequest({ id, promptTokens, outputTokensMax: 1 }));
    let isHere = true;
    for (let step = 0; step < STEPS_APART || isHere; step += 1) {
      const done = await bench.step();
      if (done === undefined) throw new Error("Answers that run have steps to come");
      const heard = done.events.some((event) => event.id === id);
      if (heard) ttftsMs.push(done.endedAtMs - arrivedAtMs);
      isHere &&= !heard;
      gapsMs.push(done.cpuMs);
    }
  }
  return { gapP99Ms: quantileOf(gapsMs, 0.99), ttftMs: medianOf(ttftsMs) };
}
