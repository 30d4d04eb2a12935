import type { PromptChain } from "../../src/protocol/prompt-chain.ts";
import type { KvPeer } from "./kv-cache/kv-tier.ts";

/** How the next token is chosen; the order of the steps is that of `Sampler.choose`. */
export interface Sampling {
  /** 0 is greedy; then top-k, top-p, min-p and the seed have no effect. */
  readonly temperature: number;
  /** 0 keeps all tokens. */
  readonly topK: number;
  /** 1 keeps all tokens. */
  readonly topP: number;
  /** Drops tokens less probable than this share of the most probable one; 0 keeps all. */
  readonly minP: number;
  /** With the position it fixes every draw, whatever else is in the batch. */
  readonly seed: number;
  /** Over prompt and output: positive logits are divided by it, negative ones multiplied; 1 is neutral. */
  readonly repetitionPenalty: number;
  /** Taken from a logit once for each time the token stands in the output; 0 is neutral. */
  readonly frequencyPenalty: number;
  /** Taken from a logit if the token stands in the output; 0 is neutral. */
  readonly presencePenalty: number;
  /** Added to the logits of these tokens; ids are within the vocabulary. */
  readonly logitBias: readonly (readonly [tokenId: number, bias: number])[];
}

/** The most probable token of unchanged logits. */
export const GREEDY_SAMPLING: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
};

/** What the text must be; compiled before the request reaches the engine's core. */
export type ConstraintSpec =
  | { readonly kind: "json-object" }
  | { readonly kind: "json-schema"; readonly schema: string }
  | {
      /** Text in which calls of these tools may stand, or must. */
      readonly kind: "tool-calls";
      readonly tools: readonly { readonly name: string; readonly schema: string }[];
      /** `optional`: free text or calls; `required`: at least one call and nothing before it. */
      readonly demand: "optional" | "required";
      readonly isParallel: boolean;
    };

/** One request as the engine takes it: token ids in, token ids out. */
export interface GenerateRequest {
  readonly id: string;
  readonly promptTokens: readonly number[];
  /**
   * The beginning of the output, made by another engine: this one goes on behind it and tells only what
   * follows. It counts as output in every respect, and is shorter than the output may become.
   */
  readonly emittedTokens?: readonly number[];
  /** At least 1, or 0 when only the prompt is looked at: `promptLogprobsTop` or `pooling`. */
  readonly outputTokensMax: number;
  /**
   * Until so many tokens are out nothing ends the output but its maximum, or a constraint that allows
   * nothing but the end.
   */
  readonly outputTokensMin: number;
  readonly sampling: Sampling;
  /** Alternatives told with each output token, 0 for none but its own; absent: no log probabilities. */
  readonly logprobsTop?: number;
  /** The same for each prompt token but the first. Such a request does not read the prefix cache. */
  readonly promptLogprobsTop?: number;
  /** The request wants the mean of the last hidden states over its prompt, and no output. */
  readonly pooling?: "mean";
  readonly constraint?: ConstraintSpec;
  /** Whose share of the KV pool the blocks count against; the gateway's opaque name. */
  readonly tenant: string;
  /** Lower is more urgent; 0 is ordinary. */
  readonly priority: number;
  /** Tokens that end the output; such a token is counted but yields no text. */
  readonly stopTokenIds: readonly number[];
  /** The KV namespace: requests share cached blocks only under one salt. */
  readonly cacheSalt: string;
  /** The gateway's names of what the prompt begins with; the gateway is told which of them are cached. */
  readonly promptChain?: PromptChain;
  /**
   * What the model's weights are adapted with (LoRA); not empty. It is part of the key of every KV
   * block, so that adapters share none. Nothing computes with it yet, and HTTP does not offer it.
   */
  readonly adapter?: string;
  /**
   * KV of its prompt comes from elsewhere: it waits until `Engine.kvArrived` says that it is here.
   * Nothing brings KV yet, and HTTP does not offer it.
   */
  readonly awaitsKv?: boolean;
  /**
   * Only the KV of the full blocks that another engine can hit is wanted: no token comes of it, and what it
   * has in the end is held for who fetches it.
   */
  readonly prefillOnly?: true;
  /** Another engine that has KV of its prompt, as the gateway believes. */
  readonly kvPeer?: KvPeer;
  /** A request that has not started by then, or too late to be in time, is refused instead of served. */
  readonly firstTokenDeadlineAtMs?: number;
  /** The largest gap between two tokens that was promised. */
  readonly tbtTargetMs?: number;
}

export type RefusalReason =
  | "queue-full"
  | "deadline-passed"
  | "prompt-too-long"
  | "kv-too-small"
  | "draining"
  /** The constraint cannot be followed; the event's message says why. */
  | "constraint-refused";

/** Why a request that was served ended. */
export type FinishReason = "stop" | "length" | "cancelled";

/** A token's log probability under the raw logits, and those of the most probable ones. */
export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  /** The most probable first; may hold the token itself. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}

/** What happened to a request; every request ends with exactly one of the last three kinds. */
export type GenerateEvent =
  | {
      readonly kind: "token";
      readonly id: string;
      readonly tokenId: number;
      readonly logprob?: TokenLogprob;
    }
  /** Before the first token: one entry a prompt token, the first without a value. */
  | {
      readonly kind: "prompt-logprobs";
      readonly id: string;
      readonly logprobs: readonly (TokenLogprob | undefined)[];
    }
  /** Before `finished`: the pooled hidden state, unit length. */
  | { readonly kind: "embedded"; readonly id: string; readonly vector: Float32Array }
  | {
      readonly kind: "finished";
      readonly id: string;
      readonly reason: FinishReason;
      readonly promptTokens: number;
      /** Prompt tokens that were found in the prefix cache at admission. */
      readonly cachedTokens: number;
      readonly outputTokens: number;
      /** Of one that was prefilled only: the leading tokens that are held for who fetches them. */
      readonly heldTokens?: number;
    }
  | {
      readonly kind: "refused";
      readonly id: string;
      readonly reason: RefusalReason;
      /** For whoever sent the request; present where the reason alone does not say it. */
      readonly message?: string;
    }
  | { readonly kind: "failed"; readonly id: string; readonly message: string };
