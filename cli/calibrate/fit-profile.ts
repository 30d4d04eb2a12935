import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import { meanOf, quantileOf } from "../../simulator/statistics.ts";
import { stepTimeMs } from "../../simulator/step-time.ts";
import { CommandFailure } from "../command.ts";
import type { DecodePoint, EngineLimits, EnginePoint, PrefillPoint } from "./engine-point.ts";
import { nonnegativeFit } from "./nonnegative-fit.ts";

/** A profile, and how far it is off what it was fitted to. */
export interface FittedProfile {
  readonly profile: HardwareProfile;
  readonly points: readonly (EnginePoint & {
    readonly toldMs: number;
    readonly errorRatio: number;
  })[];
  readonly meanErrorRatio: number;
  readonly worstErrorRatio: number;
}

/** A step that takes so much longer than one that only reads is bound by computing. */
const COMPUTE_BOUND_RATIO = 1.25;
const POINTS_MIN = 3;
const BLOCK_TOKENS = 16;
const NOISE_RATIO_MAX = 0.5;
/** Stalls are too rare to be seen within minutes; these are what the published profiles have. */
const STALLS = { stepsPerStall: 50_000, stallMs: 400 } as const;

/**
 * Finds the profile that tells an engine's steps best. Batches of answers tell what is read and what the host does;
 * long prompts what is computed. From outside nobody can tell reading weights from launching kernels: half of what
 * a step takes whatever is in it counts as either. Throws a `CommandFailure` where too little was measured.
 */
export function fitProfile(
  points: readonly EnginePoint[],
  limits: EngineLimits,
  named: { readonly name: string; readonly source: string },
): FittedProfile {
  const decodes = points.filter((point) => point.kind === "decode");
  const [fixedMs, sequenceMs, kvTokenMs] = fitDecodes(decodes);
  const { tokenMs, attendedPairMs, startMs } = fitPrefills(
    points.filter((point) => point.kind === "prefill"),
    fixedMs + sequenceMs,
  );
  const launchMs = Math.min(fixedMs / 2, Math.max(0, startMs - sequenceMs));
  const profile: HardwareProfile = {
    ...named,
    weightsMs: fixedMs - launchMs,
    kvTokenMs,
    tokenMs,
    halfEfficiencyTokens: Math.max(0, (startMs - sequenceMs - launchMs) / tokenMs),
    tileTokens: 1,
    attendedPairMs,
    launchMs,
    sequenceMs,
    noiseRatio: Math.min(
      NOISE_RATIO_MAX,
      quantileOf(
        decodes.map(({ noiseRatio }) => noiseRatio),
        0.5,
      ),
    ),
    ...STALLS,
    blockTokens: BLOCK_TOKENS,
    blockCount: Math.max(1, Math.floor(limits.kvTokens / BLOCK_TOKENS)),
    sequencesMax: limits.sequencesMax,
    batchTokensMax: limits.batchTokensMax,
    queueMax: 100_000,
    contextTokens: limits.contextTokens,
  };
  const told = points.map((point) => {
    const toldMs = stepTimeMs(profile, workOf(point));
    return { ...point, toldMs, errorRatio: Math.abs(toldMs / point.stepMs - 1) };
  });
  const errors = told.map(({ errorRatio }) => errorRatio);
  return {
    profile,
    points: told,
    meanErrorRatio: meanOf(errors),
    worstErrorRatio: Math.max(...errors),
  };
}

function fitDecodes(decodes: readonly DecodePoint[]): [number, number, number] {
  if (decodes.length < POINTS_MIN) {
    throw new CommandFailure(`Expected ${POINTS_MIN} batches or more, found ${decodes.length}`);
  }
  const samples = decodes.map(({ sequences, kvTokens, stepMs }) => ({
    terms: [1, sequences, kvTokens],
    value: stepMs,
  }));
  const [fixedMs = 0, sequenceMs = 0, kvTokenMs = 0] = nonnegativeFit(samples, 3);
  return [fixedMs, sequenceMs, kvTokenMs];
}

/** Of prompts that take longer than reading alone does. */
function fitPrefills(prefills: readonly PrefillPoint[], readingMs: number) {
  const samples = prefills
    .filter(({ stepMs }) => stepMs > COMPUTE_BOUND_RATIO * readingMs)
    .map(({ promptTokens, stepMs }) => ({
      terms: [1, promptTokens, pairsOf(promptTokens)],
      value: stepMs,
    }));
  if (samples.length < POINTS_MIN) {
    throw new CommandFailure(
      `Expected ${POINTS_MIN} prompts or more that take longer than a decode step, found ${samples.length}: ` +
        "raise --max-batch-tokens or --context where the engine allows it",
    );
  }
  // Noise may make short prompts look as if only pairs cost anything; then the line alone is nearer to the truth.
  const [curve, line] = [nonnegativeFit(samples, 3), nonnegativeFit(samples, 2)];
  const [startMs = 0, tokenMs = 0, attendedPairMs = 0] = (curve[1] ?? 0) > 0 ? curve : line;
  if (tokenMs === 0) {
    throw new CommandFailure(
      "Longer prompts did not take longer: the noise of the machine hides what they cost. Measure longer ones " +
        "(raise --max-batch-tokens, up to what the engine computes in one step, and --context), or measure again " +
        "while nothing else uses the engine or its machine",
    );
  }
  return { startMs, tokenMs, attendedPairMs };
}

function workOf(point: EnginePoint) {
  if (point.kind === "decode") {
    const { sequences, kvTokens } = point;
    return { tokens: sequences, attendedPairs: kvTokens, sequences, kvTokens };
  }
  const { promptTokens } = point;
  return {
    tokens: promptTokens,
    attendedPairs: pairsOf(promptTokens),
    sequences: 1,
    kvTokens: promptTokens,
  };
}

const pairsOf = (tokens: number) => (tokens * (tokens + 1)) / 2;
