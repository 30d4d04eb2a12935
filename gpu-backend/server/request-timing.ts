import type { AnswerMetrics } from "../../src/protocol/answer-metrics.ts";
import { toAnswerMetrics, toTenths } from "../../src/protocol/answer-metrics.ts";
import type { FinishReason } from "../engine/generate-request.ts";
import type { EngineMetrics } from "./engine-metrics.ts";

/** What the log says of one request's time, to a tenth of a millisecond. */
export interface RequestDurations {
  /** Undefined if there was no first token. */
  readonly ttftMs: number | undefined;
  readonly durationMs: number;
}

/** The instants of one request, on the clock of all threads, and what the metrics make of them. */
export class RequestTiming {
  readonly #metrics: EngineMetrics;
  readonly #arrivedAtMs: number;
  readonly #submittedAtMs: number;
  #startedAtMs: number | undefined;
  #firstTokenAtMs: number | undefined;
  #lastTokenAtMs: number | undefined;
  #tokens = 0;

  constructor(
    metrics: EngineMetrics,
    instants: { readonly arrivedAtMs: number; readonly submittedAtMs: number },
  ) {
    this.#metrics = metrics;
    this.#arrivedAtMs = instants.arrivedAtMs;
    this.#submittedAtMs = instants.submittedAtMs;
  }

  started(atMs: number): void {
    this.#startedAtMs = atMs;
    observeMs(this.#metrics.queue, atMs - this.#submittedAtMs);
  }

  token(atMs: number): void {
    this.#tokens += 1;
    if (this.#firstTokenAtMs === undefined) {
      this.#firstTokenAtMs = atMs;
      observeMs(this.#metrics.ttft, atMs - this.#arrivedAtMs);
      observeMs(this.#metrics.prefill, atMs - (this.#startedAtMs ?? atMs));
    } else {
      observeMs(this.#metrics.tokenGap, atMs - (this.#lastTokenAtMs ?? atMs));
    }
    this.#lastTokenAtMs = atMs;
  }

  /** Notes how generation ended. A cancelled one says nothing of how long answers take. */
  finished(reason: FinishReason): void {
    this.#metrics.finished.inc({ finished_reason: reason });
    if (reason === "cancelled" || this.#firstTokenAtMs === undefined) return;
    const lastTokenAtMs = this.#lastTokenAtMs ?? this.#firstTokenAtMs;
    observeMs(this.#metrics.request, lastTokenAtMs - this.#arrivedAtMs);
    observeMs(this.#metrics.decode, lastTokenAtMs - this.#firstTokenAtMs);
  }

  durations(nowMs: number): RequestDurations {
    const firstTokenAtMs = this.#firstTokenAtMs;
    return {
      ttftMs:
        firstTokenAtMs === undefined ? undefined : toTenths(firstTokenAtMs - this.#arrivedAtMs),
      durationMs: toTenths(nowMs - this.#arrivedAtMs),
    };
  }

  /** The mean gap between two tokens; undefined without any. */
  get timePerTokenMs(): number | undefined {
    const gaps = this.#tokens - 1;
    if (this.#firstTokenAtMs === undefined || gaps < 1) return undefined;
    return ((this.#lastTokenAtMs ?? this.#firstTokenAtMs) - this.#firstTokenAtMs) / gaps;
  }

  /** Where the time of a finished answer went; undefined if there was no token. */
  answerMetrics(): AnswerMetrics | undefined {
    const firstTokenAtMs = this.#firstTokenAtMs;
    if (firstTokenAtMs === undefined) return undefined;
    const startedAtMs = this.#startedAtMs ?? firstTokenAtMs;
    return toAnswerMetrics({
      queueMs: startedAtMs - this.#submittedAtMs,
      prefillMs: firstTokenAtMs - startedAtMs,
      ttftMs: firstTokenAtMs - this.#arrivedAtMs,
      generationMs: (this.#lastTokenAtMs ?? firstTokenAtMs) - firstTokenAtMs,
      outputTokens: this.#tokens,
    });
  }

  /** What is known so far, as the header `server-timing` has it; empty if that is nothing. */
  serverTiming(): string {
    const startedAtMs = this.#startedAtMs;
    if (startedAtMs === undefined) return "";
    const queue = entry("queue", startedAtMs - this.#submittedAtMs);
    const firstTokenAtMs = this.#firstTokenAtMs;
    if (firstTokenAtMs === undefined) return queue;
    const prefill = entry("prefill", firstTokenAtMs - startedAtMs);
    return [queue, prefill, entry("ttft", firstTokenAtMs - this.#arrivedAtMs)].join(", ");
  }
}

function entry(name: string, durationMs: number): string {
  return `${name};dur=${toTenths(durationMs)}`;
}

function observeMs(histogram: EngineMetrics["ttft"], durationMs: number): void {
  histogram.observe(durationMs / 1000);
}
