import type { Sampling } from "../../gpu-backend/engine/generate-request.ts";

/** Tokens of one sequence that a step computes. */
export interface StepPart {
  readonly sequence: number;
  readonly startPosition: number;
  readonly tokens: readonly number[];
}

/** One of the engines that are compared, at work on one thread. */
export interface EngineSide {
  readonly name: string;
  /** Whether matrices are multiplied in int8. */
  readonly isInteger: boolean;
  /** Whether all else is as users get it who ask for nothing. */
  readonly isDefault: boolean;
  /** Computes all parts in one step and returns the token that was sampled behind each. */
  step(parts: readonly StepPart[], sampling: Sampling): Promise<number[]>;
  /** Drops what is known of a sequence from a position on. */
  rewind(sequence: number, position: number): void;
  close(): Promise<void>;
}

/** What a side must have room for. */
export interface SideLimits {
  readonly promptTokensMax: number;
  /** How many sequences decode, those from 1 on, and how long each may become. */
  readonly sequencesMax: number;
  readonly sequenceTokensMax: number;
}

/** The sequence in which whole prompts are computed, behind which nobody decodes. */
export const PROMPT_SEQUENCE = 0;

/** The best token, always. */
export const GREEDY: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 1,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
};

/** What most requests ask for. */
export const TOP_P: Sampling = { ...GREEDY, temperature: 0.8, topP: 0.95 };
