import { assert } from "../base/assert.ts";
import type { AnswerMetrics } from "../protocol/answer-metrics.ts";
import type { Problem } from "../protocol/errors.ts";
import { tellCachedAtMost, withCachedAtMost } from "../protocol/cached-at-most.ts";
import { PROGRESS_MEMBER } from "../protocol/continuation.ts";
import { editMembers } from "../protocol/json-text.ts";
import type { SseFrame } from "../protocol/sse.ts";
import { encodeSseFrame } from "../protocol/sse.ts";
import type { UpstreamUsage } from "../protocol/upstream-answer.ts";
import type { UpstreamChunk } from "../protocol/upstream-answer.ts";
import { carriesOutput } from "../protocol/upstream-answer.ts";
import { ChunkTemplate } from "./chunk-template.ts";
import type { TemplatedChunk } from "./chunk-template.ts";
import { EmittedTokens } from "./emitted-tokens.ts";
import { encodeErrorFrame } from "./error-frame.ts";
import type { AnswerIdentity, InterruptedAnswer } from "./interrupted-answer.ts";
import { identityMembers, identityOf } from "./interrupted-answer.ts";
import { readChunk } from "./read-chunk.ts";
import type { TokenStreamOptions } from "./token-stream-options.ts";

/** `streaming` begins with the first token; `ended` and `broken` are final. */
export type TokenStreamPhase = "opened" | "streaming" | "interrupted" | "ended" | "broken";

const DONE = "[DONE]";
const UPSTREAM_ERROR: Problem = { code: "upstream_error" };
/** Role chunks of 128 choices are below this; a server that sends more before a token is broken. */
const HELD_CHARACTERS_MAX = 262_144;
/** Chunks in a row that are unlike the one before. */
const TEMPLATES_MAX = 8;

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
 *
 * Where the replica says its tokens, nothing comes out that they do not account for. When it fails, the
 * answer is interrupted rather than broken: the client has what those tokens are, and another stream may go
 * on behind them as if it were this one.
 */
export class TokenStream {
  readonly #options: TokenStreamOptions;
  readonly #tokens: EmittedTokens | undefined;
  #identity: AnswerIdentity | undefined;
  #phase: TokenStreamPhase = "opened";
  /** Chunks that came before the first token. */
  #held = "";
  #hasReleased = false;
  readonly #openChoices = new Set<number>();
  readonly #finishedChoices = new Set<number>();
  #outputChunks = 0;
  #usage: UpstreamUsage | undefined;
  #firstTokenAtMs: number | undefined;
  /** Of this replica. */
  #ownFirstTokenAtMs: number | undefined;
  #lastTokenAtMs: number | undefined;
  #tbtMaxMs = 0;
  #problem: Problem | undefined;
  #template: ChunkTemplate | undefined;
  #templatesInVain = 0;

  constructor(options: TokenStreamOptions) {
    assert(options.choiceCount >= 1, "an answer has at least one choice");
    const { tokensKeptMax, continues } = options;
    this.#options = options;
    if (tokensKeptMax !== undefined) {
      this.#tokens = new EmittedTokens(tokensKeptMax, continues?.continuation);
    }
    if (continues === undefined) return;
    this.#identity = continues.identity;
    this.#firstTokenAtMs = continues.firstTokenAtMs;
    this.#lastTokenAtMs = continues.lastTokenAtMs;
    this.#tbtMaxMs = continues.tbtMaxMs;
    this.#outputChunks = continues.outputChunks;
  }

  /** The answer that this replica goes on with. */
  get continues(): InterruptedAnswer | undefined {
    return this.#options.continues;
  }

  /** What another replica can go on with; `undefined` unless the answer is interrupted. */
  get interrupted(): InterruptedAnswer | undefined {
    const continuation = this.#tokens?.continuation;
    if (this.#phase !== "interrupted" || continuation === undefined) return undefined;
    const firstTokenAtMs = this.#firstTokenAtMs ?? 0;
    return {
      continuation,
      identity: this.#identity ?? {},
      firstTokenAtMs,
      lastTokenAtMs: this.#lastTokenAtMs ?? firstTokenAtMs,
      tbtMaxMs: this.#tbtMaxMs,
      outputChunks: this.#outputChunks,
    };
  }

  get phase(): TokenStreamPhase {
    return this.#phase;
  }

  /** Whether nothing more comes of this replica. */
  get isOver(): boolean {
    return this.#phase !== "opened" && this.#phase !== "streaming";
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

  /** The same of what this replica made, where it goes on with what another one began. */
  get ownFirstTokenAtMs(): number | undefined {
    return this.#ownFirstTokenAtMs;
  }

  /** From this replica's first chunk with output to its last one. */
  get ownDecodeMs(): number | undefined {
    if (this.#ownFirstTokenAtMs === undefined) return undefined;
    return (this.#lastTokenAtMs ?? this.#ownFirstTokenAtMs) - this.#ownFirstTokenAtMs;
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

  /** Output so far: exact where the replica tells its tokens or has counted, else one chunk is one token. */
  get outputTokens(): number {
    const toldTokens = this.#tokens?.count ?? 0;
    return this.usage?.completion_tokens ?? (toldTokens > 0 ? toldTokens : this.#outputChunks);
  }

  /** Why the answer is broken, or interrupted. */
  get problem(): Problem | undefined {
    return this.#problem;
  }

  /** Takes one event of the replica and returns what the client is to get now, often nothing. */
  push(frame: SseFrame, nowMs: number): string {
    // Some servers keep a connection alive by empty events.
    if (this.isOver || frame.data.trim() === "") return "";
    if (frame.data.trim() === DONE) return this.#finish(this.#finishedChoices.size);
    const like = frame.event === undefined ? this.#template?.read(frame.data) : undefined;
    if (like !== undefined) return this.#takeAlike(like, nowMs);
    const { cachedTokensMax } = this.#options;
    const read = readChunk(frame);
    if (read.kind === "failed") return this.breakOff(read.problem);
    const isMoved = cachedTokensMax !== undefined && read.chunk.usage;
    const data = isMoved ? tellCachedAtMost(frame.data, cachedTokensMax) : frame.data;
    return this.#take(read.chunk, data, nowMs);
  }

  /** The replica's bytes ended without its end marker: a whole answer ends well all the same. */
  end(problem: Problem = UPSTREAM_ERROR): string {
    return this.isOver ? "" : this.#finish(this.#options.choiceCount, problem);
  }

  /** The replica cannot go on: interrupts an answer that another one could go on with, breaks any other. */
  breakOff(problem: Problem = UPSTREAM_ERROR): string {
    if (this.isOver) return "";
    // Our engine's word for a request that breaks it, here or elsewhere.
    const isOfRequest = problem.code === "internal_error";
    const canGoOn = this.#hasReleased && !this.isFinished && !isOfRequest;
    if (!canGoOn || this.#tokens?.continuation === undefined) return this.fail(problem);
    [this.#phase, this.#problem, this.#held] = ["interrupted", problem, ""];
    return "";
  }

  /** Breaks the answer with one error event, unless its end was told. */
  fail(problem: Problem): string {
    if (this.#phase === "ended" || this.#phase === "broken") return "";
    this.#phase = "broken";
    this.#problem = problem;
    // What was held is no answer, and the error says all there is to say.
    this.#held = "";
    return encodeErrorFrame(problem);
  }

  /** An end marker vouches for choices that were never begun: some servers ignore `n`. */
  #finish(choiceCountMin: number, problem?: Problem): string {
    const isWhole = this.#openChoices.size === 0 && this.#finishedChoices.size > 0;
    if (!isWhole || this.#finishedChoices.size < choiceCountMin) return this.breakOff(problem);
    this.#phase = "ended";
    return this.#release() + encodeSseFrame({ data: DONE });
  }

  #take(chunk: UpstreamChunk, json: string, nowMs: number): string {
    const { cachedTokensMax = Infinity } = this.#options;
    this.#usage = chunk.usage ? withCachedAtMost(chunk.usage, cachedTokensMax) : this.#usage;
    for (const choice of chunk.choices) {
      const { index, finish_reason: finishReason } = choice;
      if (carriesOutput(choice)) this.#stamp(nowMs);
      if (!this.#finishedChoices.has(index)) this.#openChoices.add(index);
      if (typeof finishReason === "string") {
        this.#openChoices.delete(index);
        this.#finishedChoices.add(index);
      }
    }
    this.#identity ??= identityOf(chunk);
    const clientFrame = this.#rewrite(chunk, json);
    this.#held += clientFrame;
    this.#learnTemplate(chunk, json, clientFrame);
    const progress = chunk[PROGRESS_MEMBER] ?? undefined;
    if (progress !== undefined) this.#tokens?.add(progress);
    // It came together with the chunk behind it, and is accounted for with that one.
    const isPart = progress === undefined && this.#tokens?.isKept === true;
    if (this.isFinished || (this.#phase === "streaming" && !isPart)) return this.#release();
    return this.#held.length > HELD_CHARACTERS_MAX ? this.breakOff() : "";
  }

  /** Most chunks differ in their text alone; where they do not, it is not tried for long. */
  #learnTemplate(chunk: UpstreamChunk, json: string, clientFrame: string): void {
    if (this.#templatesInVain >= TEMPLATES_MAX) return;
    const template = ChunkTemplate.of(chunk, json, clientFrame, this.#tokens !== undefined);
    if (template === undefined) return;
    this.#templatesInVain += 1;
    this.#template = template;
  }

  #takeAlike({ clientFrame, tokenIds }: TemplatedChunk, nowMs: number): string {
    this.#templatesInVain = 0;
    this.#stamp(nowMs);
    if (tokenIds !== undefined) this.#tokens?.add({ token_ids: [...tokenIds] });
    this.#held += clientFrame;
    return this.#release();
  }

  #stamp(nowMs: number): void {
    this.#outputChunks++;
    this.#phase = "streaming";
    this.#firstTokenAtMs ??= nowMs;
    this.#ownFirstTokenAtMs ??= nowMs;
    this.#tbtMaxMs = Math.max(this.#tbtMaxMs, nowMs - (this.#lastTokenAtMs ?? nowMs));
    this.#lastTokenAtMs = nowMs;
  }

  /** A chunk without choices is the one with the counts; simple clients crash on it unasked. */
  #rewrite(chunk: UpstreamChunk, json: string): string {
    const { modelId, includeUsage, serviceTier } = this.#options;
    const hasUsage = chunk.usage !== undefined && chunk.usage !== null;
    if (chunk.choices.length === 0 && !(includeUsage && hasUsage)) return "";
    const model = JSON.stringify(modelId);
    const metrics = includeUsage && hasUsage ? this.#metrics() : undefined;
    const data = editMembers(json, {
      model,
      [PROGRESS_MEMBER]: undefined,
      ...(serviceTier !== undefined && { service_tier: JSON.stringify(serviceTier) }),
      ...(this.continues !== undefined && identityMembers(this.continues.identity)),
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
