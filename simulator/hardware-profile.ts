/**
 * An engine process on its machine, in the terms of the machine: what has to be computed, what has to be
 * read, and how fast that goes. Nothing in it knows the form in which a gateway forecasts steps.
 */
export interface HardwareProfile {
  readonly name: string;
  /** Where its figures are from. */
  readonly source: string;
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
  source: "Llama 3.1 8B FP8 on an H200, vLLM 0.10; NVIDIA Dynamo pre_swept_results",
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
  source: "Llama 3.3 70B FP8 on 8 H100; NVIDIA Dynamo pre_swept_results",
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
  source: "Llama 3.3 70B FP8 on 4 H100; NVIDIA Dynamo pre_swept_results",
  weightsMs: 6.55,
  kvTokenMs: 0.0000963,
  tokenMs: 0.051,
  halfEfficiencyTokens: 72,
  attendedPairMs: 1.8e-6,
  launchMs: 4.44,
  sequenceMs: 0.0496,
  blockCount: blocksOf(450_000),
};

/**
 * Llama 2 70B in 16 bits on eight A100 under the vLLM of 2023, whose launches take most of a step; of the fits to
 * `perf_model.csv` of splitwise-sim. Weights at 85 % of 8 times 2.04 TB/s.
 */
export const LLAMA2_70B_A100_TP8: HardwareProfile = {
  ...COMMON,
  name: "llama2-70b-a100-tp8",
  source: "Llama 2 70B on 8 A100, vLLM of 2023; splitwise-sim perf_model.csv (fit within 14 %)",
  weightsMs: 10.1,
  kvTokenMs: 0.000335,
  tokenMs: 0.151,
  halfEfficiencyTokens: 5,
  attendedPairMs: 4.2e-6,
  launchMs: 34,
  sequenceMs: 0.19,
  blockCount: blocksOf(1_270_000),
  batchTokensMax: 4096,
  contextTokens: 4096,
};

/**
 * Llama 3.1 8B in 16 bits on one RTX PRO 6000 under vLLM 0.19: the layers that LLMServingSim publishes, 32 times.
 * What is launched between layers is not in them, and attention is reckoned at half of 504 TFLOPS.
 */
export const LLAMA_8B_RTX_PRO_6000: HardwareProfile = {
  ...COMMON,
  name: "llama-8b-rtx-pro-6000",
  source:
    "Llama 3.1 8B bf16 on an RTX PRO 6000, vLLM 0.19; LLMServingSim layer profile (fit within 6 %)",
  weightsMs: 9.9,
  kvTokenMs: 0.000091,
  tokenMs: 0.037,
  halfEfficiencyTokens: 160,
  attendedPairMs: 2.1e-6,
  launchMs: 0.7,
  sequenceMs: 0.015,
  blockCount: blocksOf(510_000),
};

/** The same on one RTX 4090, whose 24 GB leave room for the KV of two long prompts; half of 165 TFLOPS for attention. */
export const LLAMA_8B_RTX_4090: HardwareProfile = {
  ...COMMON,
  name: "llama-8b-rtx-4090",
  source:
    "Llama 3.1 8B bf16 on an RTX 4090, vLLM 0.19; LLMServingSim layer profile (fit within 9 %)",
  weightsMs: 15,
  kvTokenMs: 0.000141,
  tokenMs: 0.088,
  halfEfficiencyTokens: 100,
  attendedPairMs: 6.4e-6,
  launchMs: 0.7,
  sequenceMs: 0.04,
  blockCount: blocksOf(30_500),
  batchTokensMax: 2048,
  contextTokens: 16_384,
};

/** An engine so small that a few requests fill it: for many short simulations. */
export const TINY: HardwareProfile = {
  ...COMMON,
  name: "tiny",
  source: "no real engine: so small that a few requests fill it",
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

/** The longest that a prompt and its answer may become together: the context, or all of the KV cache. */
export function sequenceTokensMax({
  contextTokens,
  blockCount,
  blockTokens,
}: Pick<HardwareProfile, "contextTokens" | "blockCount" | "blockTokens">): number {
  return Math.min(contextTokens, blockCount * blockTokens);
}

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
  [
    LLAMA_8B_H200,
    LLAMA_70B_H100_TP8,
    LLAMA_70B_H100_TP4,
    LLAMA2_70B_A100_TP8,
    LLAMA_8B_RTX_PRO_6000,
    LLAMA_8B_RTX_4090,
    TINY,
  ].map((profile) => [profile.name, profile]),
);
