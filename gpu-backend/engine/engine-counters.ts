import type { FinishReason, GenerateEvent, RefusalReason } from "./generate-request.ts";
import type { DraftStatistics } from "./speculation/draft-counter.ts";
import type { PrefixStatistics } from "./kv-cache/prefix-statistics.ts";

/** Totals of an engine since its start. They only grow. */
export interface EngineCounters {
  /** Prompt tokens of requests that a step has computed something for, cached ones included. */
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** Tokens that committed steps computed: prompts without hits, outputs, recomputation, and drafts, held or not. */
  readonly computedTokens: number;
  readonly prefix: PrefixStatistics;
  readonly preemptions: number;
  readonly drafts: DraftStatistics;
  readonly prefills: PrefillStatistics;
  readonly finished: Readonly<Record<FinishReason, number>>;
  readonly refused: Readonly<Record<RefusalReason, number>>;
  readonly failed: number;
}

/** Prompts that were prefilled for other engines; what is counted here is not among `promptTokens`. */
export interface PrefillStatistics {
  readonly requests: number;
  readonly tokens: number;
}

/** Of an engine that was asked for none. */
export const NO_PREFILLS: PrefillStatistics = { requests: 0, tokens: 0 };

/** Counts what happened to requests by the events that say so: each is one more of its kind. */
export class EventCounter {
  #generatedTokens = 0;
  #failed = 0;
  readonly #finished: Record<FinishReason, number> = { stop: 0, length: 0, cancelled: 0 };
  readonly #refused: Record<RefusalReason, number> = {
    "queue-full": 0,
    "deadline-passed": 0,
    "prompt-too-long": 0,
    "kv-too-small": 0,
    draining: 0,
    "constraint-refused": 0,
  };

  /** Counts the events and returns them. */
  count(events: GenerateEvent[]): GenerateEvent[] {
    for (const event of events) {
      switch (event.kind) {
        case "token":
          this.#generatedTokens += 1;
          break;
        case "finished":
          this.#finished[event.reason] += 1;
          break;
        case "refused":
          this.#refused[event.reason] += 1;
          break;
        case "failed":
          this.#failed += 1;
          break;
        case "prompt-logprobs":
        case "embedded":
          break;
      }
    }
    return events;
  }

  get totals(): Pick<EngineCounters, "generatedTokens" | "finished" | "refused" | "failed"> {
    return {
      generatedTokens: this.#generatedTokens,
      finished: { ...this.#finished },
      refused: { ...this.#refused },
      failed: this.#failed,
    };
  }
}
