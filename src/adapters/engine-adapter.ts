import type { ForeignEngine } from "../protocol/engine-kind.ts";
import type { UpstreamRefusal } from "../protocol/upstream-problem.ts";
import type { EngineSignals } from "../protocol/engine-signals.ts";

/** What a server answered to one question; `undefined`: nothing, or nothing in time. */
export type ProbeAnswer =
  | { readonly status: number; readonly text: string; readonly contentType: string }
  | undefined;

/** What an operator may do so that a server says more. */
interface EngineAdvice {
  /** What it does not say, or do; `cached_tokens` is of the counts of an answer. */
  readonly lacking: Exclude<keyof EngineSignals, "answersAnyName"> | "cached_tokens";
  readonly advice: string;
}

/**
 * One kind of server: what to ask it, how to read what it says, and how it is spoken to. Pure: the pool's
 * body does the asking, `sluice doctor` does it once.
 */
export interface EngineAdapter {
  readonly engine: ForeignEngine;
  /** As its makers write it. */
  readonly label: string;
  /**
   * Paths to `GET`, below the server's base URL, every time its load is wanted. Empty where it says nothing
   * about its load. None of them may cost it work or take away what another reader wants to see.
   */
  readonly probePaths: readonly string[];
  /** Reads the answers, in the order of `probePaths`. */
  readonly readSignals: (answers: readonly ProbeAnswer[]) => EngineSignals;
  /**
   * How to learn by which names it serves models and adapters; absent where it says nothing of them. With `answersAnyName`
   * it does not hold to its list: it answers for its own model whichever name it is asked by.
   */
  readonly models?: {
    readonly path: string;
    readonly readNames: (answer: ProbeAnswer) => readonly string[] | undefined;
    readonly answersAnyName?: true;
  };
  /**
   * Whether a refusal says that it does not have the model or adapter. 404 with a word of a model always does. Absent:
   * nothing else does.
   */
  readonly lacksModel?: (refusal: UpstreamRefusal) => boolean;
  /** What to do where it says less than it could. */
  readonly advice: readonly EngineAdvice[];
  /**
   * Whether a refusal says that it has no room now, and not that it is broken. 429 always does.
   * Absent: nothing else does.
   */
  readonly isOverload?: (refusal: UpstreamRefusal) => boolean;
  /**
   * Whether it stops computing an answer once the connection of its request is closed, as far as its makers say. Where
   * not, a request in two copies would be computed, and paid for, twice to its end.
   */
  readonly endsWhenLeft: boolean;
  /**
   * How long it is left alone when it refuses for want of room and does not say for how long: one that counts
   * requests by the minute has no more room a moment later. Absent: not at all, since others end there.
   */
  readonly holdOffMs?: number;
  /**
   * Whether a KV namespace can be told, so that what is cached in one is never found from another. Where not, what one
   * tenant has sent shows in another one's time to the first token.
   */
  readonly keepsNamespaces: boolean;
  /** Present where it can be told how urgent a request is: what it is to be started with, or it ignores or refuses it. */
  readonly priorities?: { readonly setup: string };
  /**
   * Members of a body that mean something to this kind alone, and that are not a client's to say: to whose cache, adapter, order or
   * other server a request belongs. They are taken out of whatever it sent.
   */
  readonly withheldMembers: readonly string[];
  /** Members, as JSON, by which the gateway says in a body what is its to say. Absent: it has no words for any of it. */
  readonly ownMembers?: (words: OwnWords) => Readonly<Record<string, string>>;
}

/** What the gateway says of a request beside it; what is absent is not to be said. */
export interface OwnWords {
  /** The KV namespace. */
  readonly cacheSalt?: string;
  /** From 0 to `URGENCY_MAX`, for those that were configured to be told. */
  readonly urgency?: number;
}
