import { LabelCounts } from "../src/base/label-counts.ts";
import type { MetricFamily, MetricName } from "../src/base/metric-text.ts";
import { metricFamily, NO_LABELS } from "../src/base/metric-text.ts";
import { OTHER_REQUEST_LABELS, REQUEST_LABELS_MAX } from "../src/protocol/request-labels.ts";
import type { CountedRequests } from "./request-counts.ts";

const REQUESTS: MetricName = {
  name: "gw_requests_total",
  type: "counter",
  help: "Requests of all edges by route, status of the head and code of the failure",
};

const UNKNOWN_PARAMETERS: MetricName = {
  name: "gw_unknown_params_total",
  type: "counter",
  help: "Parameters of requests that the API does not have, and that replicas were given all the same",
};

const STALE_ACCESSES: MetricName = {
  name: "gw_stale_accesses_total",
  type: "counter",
  help: "Requests that came while the Directory was away and their key had to be asked for",
};

/** What all edges have counted of their requests, since this was made. */
export class EdgeCounts {
  readonly #requests = new LabelCounts(REQUEST_LABELS_MAX, OTHER_REQUEST_LABELS);
  #unknownParameters = 0;
  #staleAccesses = 0;

  add({ requests, unknownParameters, staleAccesses }: CountedRequests): void {
    this.#requests.addAll(requests);
    this.#unknownParameters += unknownParameters;
    this.#staleAccesses += staleAccesses;
  }

  families(): MetricFamily[] {
    const samples = this.#requests.list().map(([labels, value]) => ({ labels, value }));
    return [
      metricFamily(REQUESTS, samples),
      metricFamily(UNKNOWN_PARAMETERS, [{ labels: NO_LABELS, value: this.#unknownParameters }]),
      metricFamily(STALE_ACCESSES, [{ labels: NO_LABELS, value: this.#staleAccesses }]),
    ];
  }
}
