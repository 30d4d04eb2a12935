/**
 * An engine process on its machine, in the terms of the machine: what has to be computed, what has to be
 * read, and how fast that goes. Nothing in it knows the form in which a gateway forecasts steps.
 */
export interface HardwareProfile {
  readonly name: string;
  /** Time to read all weights once, as every step does. */
  readonly weightsMs: number;
  /** Time to read the KV of one token. */
  readonly kvTokenMs: number;
  /** Time to compute one token's matrix products, at full efficiency. */
  readonly tokenMs: number;
  /** With so many tokens in a step the matrix units run at half their efficiency. */
  readonly halfEfficiencyTokens: number;
  /** Matrix units compute whole tiles: a step has the cost of the next multiple of so many tokens. */
  readonly tileTokens: number;
  /** Time to compute the attention of one pair of tokens. */
  readonly attendedPairMs: number;
  /** Launching the kernels of one step, and talking to the other chips. */
  readonly launchMs: number;
  /** Sampling and bookkeeping on the host, for each sequence of a step. */
  readonly sequenceMs: number;
  /** Standard deviation of the logarithm of a step's duration. */
  readonly noiseRatio: number;
  /** One step in so many stalls, for as long as `stallMs`. */
  readonly stepsPerStall: number;
  readonly stallMs: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly sequencesMax: number;
  readonly batchTokensMax: number;
  readonly queueMax: number;
  readonly contextTokens: number;
}

const BLOCK_TOKENS = 128;

const COMMON = {
  tileTokens: 64,
  noiseRatio: 0.05,
  stepsPerStall: 50_000,
  stallMs: 400,
  blockTokens: BLOCK_TOKENS,
  sequencesMax: 256,
  batchTokensMax: 8192,
  queueMax: 100_000,
  contextTokens: 131_072,
} as const;

const blocksOf = (tokens: number) => Math.floor(tokens / BLOCK_TOKENS);

/**
 * Llama 3.1 8B in FP8 on one H200 under vLLM 0.10: 8.03e9 weights of a byte at 85 % of 4.8 TB/s, 131,072
 * bytes of KV a token, 57 % of 1,979 TFLOPS for products and 54 % of 989 for attention. Launch and host
 * are what is left of the sweep published with NVIDIA Dynamo (`pre_swept_results`, H200 TP1).
 */
export const LLAMA_8B_H200: HardwareProfile = {
  ...COMMON,
  name: "llama-8b-h200",
  weightsMs: 1.97,
  kvTokenMs: 0.0000321,
  tokenMs: 0.0143,
  halfEfficiencyTokens: 100,
  attendedPairMs: 9.8e-7,
  launchMs: 2.4,
  sequenceMs: 0.0199,
  blockCount: blocksOf(945_000),
};

/** Llama 3.3 70B in FP8 on eight H100 with tensor parallelism; the same sweep. */
export const LLAMA_70B_H100_TP8: HardwareProfile = {
  ...COMMON,
  name: "llama-70b-h100-tp8",
  weightsMs: 3.95,
  kvTokenMs: 0.000059,
  tokenMs: 0.0362,
  halfEfficiencyTokens: 52,
  attendedPairMs: 4.5e-7,
  launchMs: 4.97,
  sequenceMs: 0.0483,
  blockCount: blocksOf(1_200_000),
};

/** Llama 3.3 70B in FP8 on four H100; the same sweep. */
export const LLAMA_70B_H100_TP4: HardwareProfile = {
  ...COMMON,
  name: "llama-70b-h100-tp4",
  weightsMs: 6.55,
  kvTokenMs: 0.0000963,
  tokenMs: 0.051,
  halfEfficiencyTokens: 72,
  attendedPairMs: 1.8e-6,
  launchMs: 4.44,
  sequenceMs: 0.0496,
  blockCount: blocksOf(450_000),
};

/** An engine so small that a few requests fill it: for many short simulations. */
export const TINY: HardwareProfile = {
  ...COMMON,
  name: "tiny",
  weightsMs: 4,
  kvTokenMs: 0.002,
  tokenMs: 0.2,
  halfEfficiencyTokens: 16,
  tileTokens: 8,
  attendedPairMs: 0.00005,
  launchMs: 4,
  sequenceMs: 0.2,
  stepsPerStall: 5_000,
  blockTokens: 16,
  blockCount: 160,
  sequencesMax: 8,
  batchTokensMax: 128,
  queueMax: 32,
  contextTokens: 2048,
};

/** The same engine on a machine that takes `ratio` times as long for everything. */
export function slowed(profile: HardwareProfile, ratio: number): HardwareProfile {
  return {
    ...profile,
    name: `${profile.name}-slowed-${ratio}`,
    weightsMs: profile.weightsMs * ratio,
    kvTokenMs: profile.kvTokenMs * ratio,
    tokenMs: profile.tokenMs * ratio,
    attendedPairMs: profile.attendedPairMs * ratio,
    launchMs: profile.launchMs * ratio,
    sequenceMs: profile.sequenceMs * ratio,
  };
}

/** The profiles that the command line knows, by name. */
export const PROFILES: Readonly<Record<string, HardwareProfile>> = Object.fromEntries(
  [LLAMA_8B_H200, LLAMA_70B_H100_TP8, LLAMA_70B_H100_TP4, TINY].map((profile) => [
    profile.name,
    profile,
  ]),
);
