import { assert } from "../base/assert.ts";
import type { AnswerMetrics } from "../protocol/answer-metrics.ts";
import type { Problem } from "../protocol/errors.ts";
import { toErrorEnvelope } from "../protocol/errors.ts";
import type { ModelId } from "../protocol/ids.ts";
import { editMembers } from "../protocol/json-text.ts";
import type { SseFrame } from "../protocol/sse.ts";
import { encodeSseFrame } from "../protocol/sse.ts";
import type { UpstreamUsage } from "../protocol/upstream-answer.ts";
import { carriesOutput, isFailedFinish, UpstreamChunk } from "../protocol/upstream-answer.ts";
import { problemInAnswer } from "../protocol/upstream-problem.ts";

/** What the client asked for, as far as it shapes the stream it gets. */
export interface TokenStreamOptions {
  /** The name the client asked for; it replaces the replica's own in every chunk. */
  readonly modelId: ModelId;
  readonly choiceCount: number;
  /** Whether the client wants the chunk with the counts; the gateway itself always asks for it. */
  readonly includeUsage: boolean;
  /** What the client is told beside the counts of the whole answer; absent: nothing. */
  readonly metricsOf?: (answer: AnswerTimes) => AnswerMetrics | undefined;
}

/** When the output of a whole answer came, and how much it was. */
export interface AnswerTimes {
  readonly firstTokenAtMs: number;
  readonly lastTokenAtMs: number;
  readonly outputTokens: number;
}

/** `streaming` begins with the first token; the last two are final. */
export type TokenStreamPhase = "opened" | "streaming" | "ended" | "broken";

const DONE = "[DONE]";
/** Role chunks of 128 choices are below this; a server that sends more before a token is broken. */
const HELD_CHARACTERS_MAX = 262_144;

/**
 * One streamed answer between a replica and a client: opened → streaming → ended or broken. Frames
 * go in, the client's text comes out.
 *
 * The client sees `[DONE]` after a whole answer and exactly one error event after any other, never
 * both and nothing behind either. An answer is whole only when every choice has its
 * `finish_reason`: clients take a clean end without one for a complete text.
 *
 * Nothing comes out before the first token, so that until then the answer can still be taken from
 * another replica, and so that clients who time the first chunk time a token.
 */
export class TokenStream {
  readonly #options: TokenStreamOptions;
  #phase: TokenStreamPhase = "opened";
  /** Chunks that came before the first token. */
  #held = "";
  #hasReleased = false;
  readonly #openChoices = new Set<number>();
  readonly #finishedChoices = new Set<number>();
  #outputChunks = 0;
  #usage: UpstreamUsage | undefined;
  #firstTokenAtMs: number | undefined;
  #lastTokenAtMs: number | undefined;
  #tbtMaxMs = 0;
  #problem: Problem | undefined;

  constructor(options: TokenStreamOptions) {
    assert(options.choiceCount >= 1, "an answer has at least one choice");
    this.#options = options;
  }

  get phase(): TokenStreamPhase {
    return this.#phase;
  }

  /** Whether the answer is over for the client, well or badly. */
  get isOver(): boolean {
    return this.#phase === "ended" || this.#phase === "broken";
  }

  /** Whether all text is there, so that only counts and the end marker can still come. */
  get isFinished(): boolean {
    return this.#openChoices.size === 0 && this.#finishedChoices.size >= this.#options.choiceCount;
  }

  /** Whether the client was given anything of this answer, so that no other one can replace it. */
  get hasReleased(): boolean {
    return this.#hasReleased;
  }

  /** When the first chunk with output came; a role alone is none. */
  get firstTokenAtMs(): number | undefined {
    return this.#firstTokenAtMs;
  }

  /** The longest gap between two chunks with output. */
  get tbtMaxMs(): number {
    return this.#tbtMaxMs;
  }

  /** The replica's own counts of the whole answer. Some servers also send counts under way. */
  get usage(): UpstreamUsage | undefined {
    return this.isFinished ? this.#usage : undefined;
  }

  /** Chunks with output so far: before the replica has counted, one is one token. */
  get outputChunks(): number {
    return this.#outputChunks;
  }

  /** Output so far: exact once the replica has counted, before that one chunk is one token. */
  get outputTokens(): number {
    return this.usage?.completion_tokens ?? this.#outputChunks;
  }

  /** Why the answer is broken. */
  get problem(): Problem | undefined {
    return this.#problem;
  }

  /** Takes one event of the replica and returns what the client is to get now, often nothing. */
  push(frame: SseFrame, nowMs: number): string {
    // Some servers keep a connection alive by empty events.
    if (this.isOver || frame.data.trim() === "") return "";
    if (frame.data.trim() === DONE) return this.#finish(this.#finishedChoices.size);
    const body = parseJson(frame.data);
    const problem = problemInAnswer(body);
    if (problem !== undefined) return this.fail(problem);
    const chunk = UpstreamChunk.safeParse(body);
    if (frame.event === "error" || !chunk.success) return this.fail({ code: "upstream_error" });
    if (chunk.data.choices.some((choice) => isFailedFinish(choice.finish_reason))) {
      return this.fail({ code: "upstream_error" });
    }
    return this.#take(chunk.data, frame.data, nowMs);
  }

  /** The replica's bytes ended without its end marker: a whole answer ends well all the same. */
  end(): string {
    return this.isOver ? "" : this.#finish(this.#options.choiceCount);
  }

  /** Breaks the answer with one error event, unless it is over. */
  fail(problem: Problem): string {
    if (this.isOver) return "";
    this.#phase = "broken";
    this.#problem = problem;
    // What was held is no answer, and the error says all there is to say.
    this.#held = "";
    return encodeErrorFrame(problem);
  }

  /** An end marker vouches for choices that were never begun: some servers ignore `n`. */
  #finish(choiceCountMin: number): string {
    const isWhole = this.#openChoices.size === 0 && this.#finishedChoices.size > 0;
    if (!isWhole || this.#finishedChoices.size < choiceCountMin) {
      return this.fail({ code: "upstream_error" });
    }
    this.#phase = "ended";
    return this.#release() + encodeSseFrame({ data: DONE });
  }

  #take(chunk: UpstreamChunk, json: string, nowMs: number): string {
    this.#usage = chunk.usage ?? this.#usage;
    for (const choice of chunk.choices) {
      const { index, finish_reason: finishReason } = choice;
      if (carriesOutput(choice)) this.#stamp(nowMs);
      if (!this.#finishedChoices.has(index)) this.#openChoices.add(index);
      if (typeof finishReason === "string") {
        this.#openChoices.delete(index);
        this.#finishedChoices.add(index);
      }
    }
    this.#held += this.#rewrite(chunk, json);
    if (this.#phase === "streaming" || this.isFinished) return this.#release();
    return this.#held.length > HELD_CHARACTERS_MAX ? this.fail({ code: "upstream_error" }) : "";
  }

  #stamp(nowMs: number): void {
    this.#outputChunks++;
    this.#phase = "streaming";
    this.#firstTokenAtMs ??= nowMs;
    this.#tbtMaxMs = Math.max(this.#tbtMaxMs, nowMs - (this.#lastTokenAtMs ?? nowMs));
    this.#lastTokenAtMs = nowMs;
  }

  /** A chunk without choices is the one with the counts; simple clients crash on it unasked. */
  #rewrite(chunk: UpstreamChunk, json: string): string {
    const { modelId, includeUsage } = this.#options;
    const hasUsage = chunk.usage !== undefined && chunk.usage !== null;
    if (chunk.choices.length === 0 && !(includeUsage && hasUsage)) return "";
    const model = JSON.stringify(modelId);
    const metrics = includeUsage && hasUsage ? this.#metrics() : undefined;
    const data = editMembers(json, {
      model,
      ...(!includeUsage && { usage: undefined }),
      ...(metrics !== undefined && { metrics: JSON.stringify(metrics) }),
    });
    return encodeSseFrame({ data });
  }

  #metrics(): AnswerMetrics | undefined {
    const firstTokenAtMs = this.#firstTokenAtMs;
    if (!this.isFinished || firstTokenAtMs === undefined) return undefined;
    const lastTokenAtMs = this.#lastTokenAtMs ?? firstTokenAtMs;
    const { outputTokens } = this;
    return this.#options.metricsOf?.({ firstTokenAtMs, lastTokenAtMs, outputTokens });
  }

  #release(): string {
    const text = this.#held;
    this.#held = "";
    this.#hasReleased ||= text !== "";
    return text;
  }
}

/** Writes the error event that ends a stream whose status has already been sent as 200. */
export function encodeErrorFrame(problem: Problem): string {
  return encodeSseFrame({ event: "error", data: JSON.stringify(toErrorEnvelope(problem)) });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
