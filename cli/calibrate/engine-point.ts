/** How long one step of an engine took, and what it did. */
export type EnginePoint =
  /** A lone prompt, computed in one step. */
  | { readonly kind: "prefill"; readonly promptTokens: number; readonly stepMs: number }
  /** So many sequences that each wrote one token. */
  | {
      readonly kind: "decode";
      readonly sequences: number;
      /** What they hold in KV, all together. */
      readonly kvTokens: number;
      readonly stepMs: number;
      /** Standard deviation of the logarithm of single steps; robust against stalls. */
      readonly noiseRatio: number;
    };

export type PrefillPoint = Extract<EnginePoint, { kind: "prefill" }>;
export type DecodePoint = Extract<EnginePoint, { kind: "decode" }>;

/** What an engine was started with. */
export interface EngineLimits {
  readonly sequencesMax: number;
  readonly batchTokensMax: number;
  readonly kvTokens: number;
  readonly contextTokens: number;
}
