import { unreachable } from "../../../src/base/assert.ts";
import type { ModelConfig } from "./model-config.ts";
import type { RopeScaling } from "./rope-scaling.ts";

type RopeConfig = Pick<ModelConfig, "headDimensions" | "ropeTheta" | "ropeScaling">;

/** The angle that one position turns each pair of a head's dimensions by, and the length of the turned. */
export interface RotaryFrequencies {
  readonly frequencies: Float32Array;
  readonly factor: number;
}

/**
 * The frequencies of a model's rotary positions, rounded to f32 on the way as transformers does: at
 * high positions that moves angles by more than the rounding of the results, and it is what models
 * were trained with.
 */
export function rotaryFrequencies(config: RopeConfig): RotaryFrequencies {
  const half = config.headDimensions / 2;
  const frequencies = Float32Array.from({ length: half }, (_, pair) => {
    const power = Math.fround(config.ropeTheta ** Math.fround(pair / half));
    return 1 / power;
  });
  const { ropeScaling: scaling } = config;
  const factor = scaling.kind === "yarn" ? scaling.attentionFactor : 1;
  return { frequencies: scaled(frequencies, scaling, config.ropeTheta), factor };
}

function scaled(frequencies: Float32Array, scaling: RopeScaling, theta: number): Float32Array {
  switch (scaling.kind) {
    case "default":
      return frequencies;
    case "linear":
      return frequencies.map((frequency) => frequency / scaling.factor);
    case "llama3":
      return frequencies.map((frequency) => llama3Frequency(frequency, scaling));
    case "yarn":
      return yarnFrequencies(frequencies, scaling, theta);
  }
  return unreachable(scaling);
}

/** Slow turns are stretched, fast ones stay, and those between are mixed of both. */
function llama3Frequency(
  frequency: number,
  scaling: Extract<RopeScaling, { kind: "llama3" }>,
): number {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high } = scaling;
  const turns = (scaling.originalContextTokens * frequency) / (2 * Math.PI);
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const share = (turns - low) / (high - low);
  return ((1 - share) * frequency) / factor + share * frequency;
}

/** A ramp over the dimensions, from those that turn often enough to stay to those that are stretched. */
function yarnFrequencies(
  frequencies: Float32Array,
  scaling: Extract<RopeScaling, { kind: "yarn" }>,
  theta: number,
): Float32Array {
  const dimensions = 2 * frequencies.length;
  const dimensionOf = (turns: number) =>
    (dimensions * Math.log(scaling.originalContextTokens / (turns * 2 * Math.PI))) /
    (2 * Math.log(theta));
  const fast = dimensionOf(scaling.betaFast);
  const slow = dimensionOf(scaling.betaSlow);
  const low = Math.max(scaling.truncates ? Math.floor(fast) : fast, 0);
  const high = Math.min(scaling.truncates ? Math.ceil(slow) : slow, dimensions - 1);
  // As published: an empty ramp would divide by zero.
  const width = high === low ? 0.001 : high - low;
  return frequencies.map((frequency, pair) => {
    const stretched = Math.min(Math.max((pair - low) / width, 0), 1);
    return (frequency / scaling.factor) * stretched + frequency * (1 - stretched);
  });
}
