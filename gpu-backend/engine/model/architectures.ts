/** What a kind of checkpoint fixes without saying so in its config.json, as transformers computes it. */
export interface Architecture {
  readonly kvHeadCount?: number;
  readonly headDimensions?: number;
  readonly contextTokens: number;
  readonly normEpsilon: number;
  readonly activation: string;
  readonly tiedEmbeddings: boolean;
  readonly eosTokenIds: readonly number[];
  /** Where an absent key means a window all the same. */
  readonly slidingWindow?: number;
  /** Whether a window is one unless use_sliding_window says so. */
  readonly usesWindowUnasked: boolean;
  /** Biases of queries, keys and values: always, never, or as attention_bias says. */
  readonly qkvBias: "always" | "never" | "configured";
  readonly outputBias: "never" | "configured";
  readonly mlpBias: "never" | "configured";
  /** Queries and keys are normed, head by head. */
  readonly headNorms: boolean;
  /** Queries, keys and values are one tensor of the file, and so are gate and up. */
  readonly isFused: boolean;
  /** Norms multiply with 1 + w, and embeddings are scaled by the root of the hidden size. */
  readonly isGemma: boolean;
}

const LLAMA: Architecture = {
  contextTokens: 2048,
  normEpsilon: 1e-6,
  activation: "silu",
  tiedEmbeddings: false,
  eosTokenIds: [2],
  usesWindowUnasked: true,
  qkvBias: "configured",
  outputBias: "configured",
  mlpBias: "configured",
  headNorms: false,
  isFused: false,
  isGemma: false,
};

/** By `model_type`; SmolLM 1 and 2 are "llama", Qwen2.5 is "qwen2". */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map([
  ["llama", LLAMA],
  [
    "mistral",
    {
      ...LLAMA,
      kvHeadCount: 8,
      contextTokens: 131_072,
      slidingWindow: 4096,
      qkvBias: "never",
      outputBias: "never",
      mlpBias: "never",
    },
  ],
  [
    "qwen2",
    {
      ...LLAMA,
      kvHeadCount: 32,
      contextTokens: 32_768,
      eosTokenIds: [],
      usesWindowUnasked: false,
      qkvBias: "always",
      outputBias: "never",
      mlpBias: "never",
    },
  ],
  [
    "qwen3",
    {
      ...LLAMA,
      kvHeadCount: 32,
      headDimensions: 128,
      contextTokens: 32_768,
      eosTokenIds: [],
      usesWindowUnasked: false,
      mlpBias: "never",
      headNorms: true,
    },
  ],
  [
    "phi3",
    {
      ...LLAMA,
      contextTokens: 4096,
      normEpsilon: 1e-5,
      eosTokenIds: [32_000],
      qkvBias: "never",
      outputBias: "never",
      mlpBias: "never",
      isFused: true,
    },
  ],
  [
    "gemma",
    {
      ...LLAMA,
      kvHeadCount: 16,
      headDimensions: 256,
      contextTokens: 8192,
      activation: "gelu_pytorch_tanh",
      tiedEmbeddings: true,
      eosTokenIds: [1],
      mlpBias: "never",
      isGemma: true,
    },
  ],
]);

/** What others ask for beyond these, for the refusal. */
const KNOWN_UNSUPPORTED: ReadonlyMap<string, string> = new Map([
  ["gemma2", "soft-capped logits and norms behind the blocks"],
  ["gemma3", "images, windows of its own in most layers, and norms behind the blocks"],
  ["gemma3_text", "windows of its own in most layers, and norms behind the blocks"],
  ["mixtral", "a mixture of experts"],
  ["qwen2_moe", "a mixture of experts"],
  ["qwen3_moe", "a mixture of experts"],
  ["phimoe", "a mixture of experts"],
  ["olmoe", "a mixture of experts"],
  ["deepseek_v2", "a mixture of experts and latent attention"],
  ["deepseek_v3", "a mixture of experts and latent attention"],
  ["smollm3", "layers without rotary positions"],
  ["llama4", "a mixture of experts, and layers without rotary positions"],
  ["qwen3_next", "linear attention"],
  ["mamba", "a state-space model"],
  ["gpt2", "learned positions"],
  ["phi", "attention and MLP side by side"],
  ["bitnet", "ternary weights"],
]);

/** What an architecture that is not computed would need. */
export function whatIsMissingFor(modelType: string): string {
  return KNOWN_UNSUPPORTED.get(modelType) ?? "an architecture that this engine does not know";
}
