import { quantileOf } from "../../simulator/statistics.ts";
import { CommandFailure } from "../command.ts";
import type { DecodePoint, EngineLimits, EnginePoint, PrefillPoint } from "./engine-point.ts";

/** One answer of the engine: when each of its chunks came. */
export interface ProbedAnswer {
  readonly sentAtMs: number;
  readonly chunksAtMs: readonly number[];
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface MeasureOptions extends EngineLimits {
  /** Asks for one answer whose prompt nothing has cached. Throws where there is none. */
  readonly ask: (asked: {
    readonly promptTokens: number;
    readonly outputTokens: number;
  }) => Promise<ProbedAnswer>;
  /** What a request takes that computes nothing. */
  readonly roundTripMs: number;
  readonly onPoint?: (point: EnginePoint) => void;
}

const PROMPT_TOKENS_MIN = 64;
const PROMPT_TOKENS_MOST = 16_384;
const PROMPT_LENGTHS = 8;
const REPEATS = 3;
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256] as const;
const SHORT_PROMPT_TOKENS = 64;
const LONG_PROMPT_TOKENS = 4_096;
const ANSWER_TOKENS = 48;
/** Enough to see through what the others' prefills take at first. */
const ANSWER_TOKENS_MOST = 768;
const STEPS_MIN = 8;
/** Room for the tokens of templates, whose number is known only roughly. */
const SPARE_TOKENS = 64;

/** Measures an engine that does nothing else meanwhile: lone prompts, then batches of answers. */
export async function measureEngine(options: MeasureOptions): Promise<EnginePoint[]> {
  const points: EnginePoint[] = [];
  const note = (point: EnginePoint) => {
    points.push(point);
    options.onPoint?.(point);
  };
  for (const promptTokens of promptLengthsOf(options)) note(await prefill(options, promptTokens));
  for (const promptTokens of contextsOf(options)) {
    for (const sequences of BATCHES) {
      if (fits(options, sequences, promptTokens)) {
        note(await decode(options, { sequences, promptTokens }));
      }
    }
  }
  return points;
}

/** Lengths that are computed in one step, each by the same factor longer. */
function promptLengthsOf({ batchTokensMax, contextTokens }: MeasureOptions): number[] {
  const most = Math.min(PROMPT_TOKENS_MOST, batchTokensMax, contextTokens - SPARE_TOKENS);
  if (most < 2 * PROMPT_TOKENS_MIN) {
    throw new CommandFailure(`Expected room for prompts of ${2 * PROMPT_TOKENS_MIN} tokens`);
  }
  const factor = (most / PROMPT_TOKENS_MIN) ** (1 / (PROMPT_LENGTHS - 1));
  return Array.from({ length: PROMPT_LENGTHS }, (_, index) =>
    Math.floor(PROMPT_TOKENS_MIN * factor ** index),
  );
}

function contextsOf({ contextTokens }: MeasureOptions): number[] {
  const long = Math.min(LONG_PROMPT_TOKENS, Math.floor(contextTokens / 2));
  return [SHORT_PROMPT_TOKENS, long];
}

function fits({ sequencesMax, kvTokens }: MeasureOptions, sequences: number, prompt: number) {
  return sequences <= sequencesMax && sequences * (prompt + 2 * ANSWER_TOKENS) <= kvTokens;
}

async function prefill(options: MeasureOptions, promptTokens: number): Promise<PrefillPoint> {
  const answers: ProbedAnswer[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat += 1) {
    answers.push(await options.ask({ promptTokens, outputTokens: 1 }));
  }
  const ttftsMs = answers.map(({ sentAtMs, chunksAtMs }) => (chunksAtMs[0] ?? NaN) - sentAtMs);
  return {
    kind: "prefill",
    promptTokens: quantileOf(
      answers.map(({ inputTokens }) => inputTokens),
      0.5,
    ),
    stepMs: Math.max(0, quantileOf(ttftsMs, 0.5) - options.roundTripMs),
  };
}

async function decode(
  options: MeasureOptions,
  { sequences, promptTokens }: { readonly sequences: number; readonly promptTokens: number },
): Promise<DecodePoint> {
  for (let outputTokens = ANSWER_TOKENS; ; outputTokens *= 2) {
    const asked = { promptTokens, outputTokens };
    const answers = await Promise.all(Array.from({ length: sequences }, () => options.ask(asked)));
    const gapsMs = commonGaps(answers);
    const isLast = 2 * outputTokens > Math.min(ANSWER_TOKENS_MOST, options.contextTokens / 4);
    if (gapsMs.length < STEPS_MIN * sequences && !isLast) continue;
    if (gapsMs.length === 0) {
      throw new CommandFailure(
        `${sequences} answers never ran together: is --max-sequences right, and is nobody else served?`,
      );
    }
    const stepMs = quantileOf(gapsMs, 0.5);
    const spread = quantileOf(gapsMs, 0.841) / Math.max(1e-9, quantileOf(gapsMs, 0.159));
    return {
      kind: "decode",
      sequences,
      kvTokens: answers.reduce((sum, each) => sum + each.inputTokens + each.outputTokens / 2, 0),
      stepMs,
      noiseRatio: Math.max(0, Math.log(spread) / 2),
    };
  }
}

/** Time per token of each answer, gap by gap, while all of them are being written. */
function commonGaps(answers: readonly ProbedAnswer[]): number[] {
  const fromMs = Math.max(...answers.map(({ chunksAtMs }) => chunksAtMs[0] ?? Infinity));
  const untilMs = Math.min(...answers.map(({ chunksAtMs }) => chunksAtMs.at(-1) ?? -Infinity));
  return answers.flatMap(({ chunksAtMs, outputTokens }) => {
    const tokensPerChunk = outputTokens / chunksAtMs.length;
    return chunksAtMs.flatMap((atMs, index) => {
      const beforeMs = chunksAtMs[index - 1];
      if (beforeMs === undefined || beforeMs < fromMs || atMs > untilMs) return [];
      return [(atMs - beforeMs) / tokensPerChunk];
    });
  });
}
