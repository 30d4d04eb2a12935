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
    if (reason === "cancelled") return;
    const firstTokenAtMs = this.#firstTokenAtMs ?? this.#arrivedAtMs;
    const lastTokenAtMs = this.#lastTokenAtMs ?? firstTokenAtMs;
    observeMs(this.#metrics.request, lastTokenAtMs - this.#arrivedAtMs);
    observeMs(this.#metrics.decode, lastTokenAtMs - firstTokenAtMs);
  }

  durations(nowMs: number): RequestDurations {
    const firstTokenAtMs = this.#firstTokenAtMs;
    return {
      ttftMs:
        firstTokenAtMs === undefined ? undefined : toTenths(firstTokenAtMs - this.#arrivedAtMs),
      durationMs: toTenths(nowMs - this.#arrivedAtMs),
    };
  }
}

function toTenths(durationMs: number): number {
  return Math.round(durationMs * 10) / 10;
}

function observeMs(histogram: EngineMetrics["ttft"], durationMs: number): void {
  histogram.observe(durationMs / 1000);
}
