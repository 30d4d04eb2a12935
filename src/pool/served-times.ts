import type { HistogramState } from "../base/histogram.ts";
import { emptyHistogram, observe } from "../base/histogram.ts";
import type { MetricFamily } from "../base/metric-text.ts";
import { histogramFamily, withLabel } from "../base/metric-text.ts";
import type { Operation } from "../protocol/operation.ts";
import { FIRST_TOKEN_BUCKETS, REQUEST_BUCKETS, TOKEN_GAP_BUCKETS } from "../slo/metric-buckets.ts";

/** What a request asked for, and by which name of ours for the model. */
interface Served {
  readonly operation: Operation["name"];
  readonly modelId: string;
}

interface Series extends Served {
  /** From the arrival at the gateway. */
  readonly firstToken: HistogramState;
  readonly tokenGap: HistogramState;
  readonly request: HistogramState;
}

/** By operation and model; histograms of seconds. */
export type ServedTimesState = Map<string, Series>;

/** Far more than a pool has models, which may come and go. */
const SERIES_MAX = 192;
/** Stands for whatever is beyond, as OpenTelemetry has it. */
const OTHER = "_other";

const TIMES = [
  {
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "Arrival at the gateway to first token, of streams",
    bounds: FIRST_TOKEN_BUCKETS,
    read: ({ firstToken }: Series) => firstToken,
  },
  {
    name: "gen_ai_server_time_per_output_token_seconds",
    help: "Mean time per token after the first, of whole answers",
    bounds: TOKEN_GAP_BUCKETS,
    read: ({ tokenGap }: Series) => tokenGap,
  },
  {
    name: "gen_ai_server_request_duration_seconds",
    help: "Arrival at the gateway to the end of the answer, of whole answers",
    bounds: REQUEST_BUCKETS,
    read: ({ request }: Series) => request,
  },
] as const;

/** The server metrics of OpenTelemetry's GenAI conventions: no decision is made by them. */
export class ServedTimes {
  readonly state: ServedTimesState;

  constructor(state: ServedTimesState = new Map()) {
    this.state = state;
  }

  firstToken(served: Served, seconds: number): void {
    observe(this.#seriesOf(served).firstToken, FIRST_TOKEN_BUCKETS, seconds);
  }

  tokenGap(served: Served, seconds: number): void {
    observe(this.#seriesOf(served).tokenGap, TOKEN_GAP_BUCKETS, seconds);
  }

  request(served: Served, seconds: number): void {
    observe(this.#seriesOf(served).request, REQUEST_BUCKETS, seconds);
  }

  metrics(pool: string): MetricFamily[] {
    const series = [...this.state.values()].map((one) => ({ one, labels: labelsOf(pool, one) }));
    return TIMES.flatMap(({ name, help, bounds, read }) =>
      series.map(({ one, labels }) => histogramFamily({ name, help }, labels, bounds, read(one))),
    );
  }

  #seriesOf({ operation, modelId }: Served): Series {
    const known = this.state.get(keyOf(operation, modelId));
    if (known !== undefined) return known;
    const isFull = this.state.size >= SERIES_MAX;
    if (isFull && modelId !== OTHER) return this.#seriesOf({ operation, modelId: OTHER });
    const series = {
      operation,
      modelId,
      firstToken: emptyHistogram(FIRST_TOKEN_BUCKETS),
      tokenGap: emptyHistogram(TOKEN_GAP_BUCKETS),
      request: emptyHistogram(REQUEST_BUCKETS),
    };
    this.state.set(keyOf(operation, modelId), series);
    return series;
  }
}

const keyOf = (operation: string, modelId: string): string => `${operation}\n${modelId}`;

function labelsOf(pool: string, { operation, modelId }: Served): string {
  const ofOperation = withLabel(pool, "gen_ai_operation_name", operation);
  const ofProvider = withLabel(ofOperation, "gen_ai_provider_name", "sluice");
  return withLabel(ofProvider, "gen_ai_request_model", modelId);
}
