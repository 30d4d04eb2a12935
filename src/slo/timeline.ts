import { assert } from "../base/assert.ts";
import { DELIVERY_SLACK_MS } from "./deadlines.ts";
import type { SloTargets } from "./targets.ts";

/** How a request ended: by an engine's finish reason, because its client left, or by our fault. */
export type RequestEnding = "stop" | "length" | "tool_calls" | "client-gone" | "failed";

/**
 * What happened to one admitted request, as its client saw it. Durations count from the arrival,
 * less the client's own upload.
 */
export interface RequestTimeline {
  /** False: the answer came as a whole. */
  readonly isStreamed: boolean;
  /** Absent when no engine ever told. */
  readonly promptTokens: number | undefined;
  /** Absent when there was no token. */
  readonly ttftMs: number | undefined;
  /** Absent unless the answer came to its end. */
  readonly e2eMs: number | undefined;
  /** Until it was over, however it ended. */
  readonly elapsedMs: number;
  /** From the first token to the last. */
  readonly decodeMs: number | undefined;
  readonly outputTokens: number;
  /** Between two tokens; of an answer that broke off also from its last token to that moment. */
  readonly longestGapMs: number;
  /** Tokens that came more than `DELIVERY_SLACK_MS` behind the pace that TPOT promises. */
  readonly lateTokens: number;
  /** How much of it the request waited in the pool. */
  readonly queuedMs: number;
  readonly ending: RequestEnding;
  /** True for an answer that is not quite what was asked for: clamped, or of another model. */
  readonly isDegraded: boolean;
}

/** What a {@link TimelineRecorder} has seen so far. */
export interface TimelineState {
  firstTokenAtMs?: number;
  lastTokenAtMs?: number;
  seenTokens: number;
  longestGapMs: number;
  lateTokens: number;
  queuedMs: number;
  isDegraded: boolean;
  end?: {
    readonly ending: RequestEnding;
    readonly atMs: number;
    readonly promptTokens: number | undefined;
    readonly outputTokens: number | undefined;
  };
}

interface TimelineOptions {
  readonly arrivedAtMs: number;
  /** How long the client took to send its body; not our time. */
  readonly uploadMs: number;
  readonly isStreamed: boolean;
  readonly targets: SloTargets;
}

/** An engine's exact counts. */
interface TokenUsage {
  readonly promptTokens?: number;
  readonly outputTokens?: number;
}

/** Follows one request in constant memory. Instants that run backwards count as no time. */
export class TimelineRecorder {
  readonly state: TimelineState;
  readonly #startAtMs: number;
  readonly #isStreamed: boolean;
  readonly #tpotLimitMs: number | undefined;

  constructor(
    options: TimelineOptions,
    state: TimelineState = {
      seenTokens: 0,
      longestGapMs: 0,
      lateTokens: 0,
      queuedMs: 0,
      isDegraded: false,
    },
  ) {
    this.#startAtMs = options.arrivedAtMs + options.uploadMs;
    this.#isStreamed = options.isStreamed;
    this.#tpotLimitMs = options.targets.tpot?.limitMs;
    this.state = state;
  }

  /** Adds a wait in a pool; a request that is offered again may wait more than once. */
  queued(ms: number): void {
    this.state.queuedMs += Math.max(0, ms);
  }

  /** Notes that the answer will not be quite what was asked for. */
  degraded(): void {
    this.state.isDegraded = true;
  }

  /** Notes tokens that were written to the client in one chunk: they share its instant. */
  tokens(count: number, nowMs: number): void {
    const { state } = this;
    assert(state.end === undefined, "no token comes after the end");
    if (count <= 0) return;
    const lastAtMs = state.lastTokenAtMs ?? nowMs;
    const atMs = Math.max(nowMs, lastAtMs);
    state.longestGapMs = Math.max(state.longestGapMs, atMs - lastAtMs);
    const firstAtMs = (state.firstTokenAtMs ??= atMs);
    state.lastTokenAtMs = atMs;
    state.lateTokens += this.#lateAmong(count, atMs - firstAtMs);
    state.seenTokens += count;
  }

  /** Ends the timeline; only the first end counts. An engine's exact counts replace what was seen. */
  end(ending: RequestEnding, nowMs: number, usage: TokenUsage = {}): void {
    const { state } = this;
    if (state.end !== undefined) return;
    const atMs = Math.max(nowMs, state.lastTokenAtMs ?? nowMs);
    const { promptTokens, outputTokens } = usage;
    state.end = { ending, atMs, promptTokens, outputTokens };
    if (state.lastTokenAtMs === undefined || isComplete(ending)) return;
    state.longestGapMs = Math.max(state.longestGapMs, atMs - state.lastTokenAtMs);
  }

  /** What happened; to be asked only after the end. */
  get timeline(): RequestTimeline {
    const { end, firstTokenAtMs, lastTokenAtMs, ...seen } = this.state;
    assert(end !== undefined, "a timeline is read after its end");
    const elapsedMs = Math.max(0, end.atMs - this.#startAtMs);
    return {
      isStreamed: this.#isStreamed,
      promptTokens: end.promptTokens,
      ttftMs:
        firstTokenAtMs === undefined ? undefined : Math.max(0, firstTokenAtMs - this.#startAtMs),
      e2eMs: isComplete(end.ending) ? elapsedMs : undefined,
      elapsedMs,
      decodeMs:
        firstTokenAtMs === undefined || lastTokenAtMs === undefined
          ? undefined
          : lastTokenAtMs - firstTokenAtMs,
      outputTokens: end.outputTokens ?? seen.seenTokens,
      longestGapMs: seen.longestGapMs,
      lateTokens: seen.lateTokens,
      queuedMs: seen.queuedMs,
      ending: end.ending,
      isDegraded: seen.isDegraded,
    };
  }

  checkInvariants(): void {
    const { firstTokenAtMs, lastTokenAtMs, seenTokens, lateTokens } = this.state;
    assert(
      (firstTokenAtMs === undefined) === (seenTokens === 0),
      "the first token has its instant",
    );
    assert((firstTokenAtMs ?? 0) <= (lastTokenAtMs ?? 0), "the first token is not after the last");
    assert(lateTokens >= 0 && lateTokens <= seenTokens, "only tokens that came were late");
  }

  /** Of the next `count` tokens those whose deadline, `k × TPOT + slack` after the first, is over. */
  #lateAmong(count: number, sinceFirstMs: number): number {
    if (this.#tpotLimitMs === undefined) return 0;
    const dueTokens = Math.ceil((sinceFirstMs - DELIVERY_SLACK_MS) / this.#tpotLimitMs);
    return Math.min(count, Math.max(0, dueTokens - this.state.seenTokens));
  }
}

function isComplete(ending: RequestEnding): boolean {
  return ending !== "client-gone" && ending !== "failed";
}
