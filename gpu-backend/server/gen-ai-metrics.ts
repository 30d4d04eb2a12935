import { Histogram, type Registry } from "prom-client";
import {
  FIRST_TOKEN_BUCKETS,
  REQUEST_BUCKETS,
  TOKEN_GAP_BUCKETS,
} from "../../src/slo/metric-buckets.ts";

/** What a request asked for, in the words of OpenTelemetry's conventions. */
export type Operation = "chat" | "text_completion" | "embeddings";

/** One request that has ended; durations in ms. */
interface EndedOperation {
  readonly operation: Operation;
  /** The served model's name: a client's own would be a label without bound. */
  readonly model: string;
  readonly durationMs: number;
  /** Undefined if there was no token. */
  readonly ttftMs: number | undefined;
  /** Mean gaps of the choices that have any. */
  readonly timesPerTokenMs: readonly number[];
  /** The code of its error; undefined if it succeeded. */
  readonly errorType: string | undefined;
}

/** The server metrics of OpenTelemetry's GenAI conventions, under Prometheus' names. */
export interface GenAiMetrics {
  /** Notes a request. How fast tokens come is told only of those that succeeded. */
  observe(ended: EndedOperation): void;
}

const LABELS = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const;

/** Adds the three histograms to a registry. */
export function createGenAiMetrics(registry: Registry): GenAiMetrics {
  const registers = [registry];
  const duration = new Histogram({
    name: "gen_ai_server_request_duration_seconds",
    help: "Arrival to the end of the answer",
    buckets: REQUEST_BUCKETS,
    labelNames: [...LABELS, "error_type"],
    registers,
  });
  const ttft = new Histogram({
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "Arrival to first token",
    buckets: FIRST_TOKEN_BUCKETS,
    labelNames: LABELS,
    registers,
  });
  const timePerToken = new Histogram({
    name: "gen_ai_server_time_per_output_token_seconds",
    help: "Mean time per token after the first",
    buckets: TOKEN_GAP_BUCKETS,
    labelNames: LABELS,
    registers,
  });
  return {
    observe: ({ operation, model, durationMs, ttftMs, timesPerTokenMs, errorType }) => {
      const labels = {
        gen_ai_operation_name: operation,
        gen_ai_provider_name: "sluice",
        gen_ai_request_model: model,
      };
      const error = errorType === undefined ? {} : { error_type: errorType };
      duration.observe({ ...labels, ...error }, durationMs / 1000);
      if (errorType !== undefined) return;
      if (ttftMs !== undefined) ttft.observe(labels, ttftMs / 1000);
      for (const gapMs of timesPerTokenMs) timePerToken.observe(labels, gapMs / 1000);
    },
  };
}
