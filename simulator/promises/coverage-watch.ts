import type { ForecastDimension, PastForecast } from "../../src/forecast/calibration.ts";
import { binOf, binPositionOf } from "../../src/forecast/forecast-bins.ts";
import { judgedPaceMs } from "../../src/pool/foreseen-pace.ts";
import type { Lease } from "../../src/pool/lease-book.ts";
import type { Outcome } from "../../src/pool/offer.ts";
import type { LeaseId } from "../../src/protocol/ids.ts";
import { TPOT_TOKENS_MIN } from "../../src/slo/deadlines.ts";
import type { Dispatcher, DispatchWatch, VerdictListener } from "../dispatcher.ts";
import { PoolDispatcher } from "../pool-dispatcher.ts";

/** How many forecasts of one bin came true, and how many of them came later than their bound. */
export interface Covered {
  readonly dimension: ForecastDimension;
  samples: number;
  exceeded: number;
}

/**
 * Holds the bounds that requests were sent with against what came, apart from the core's own counts. Only
 * what is known to its end counts: an answer that was cut off has no TPOT, one without a token no TTFT.
 */
export class CoverageWatch implements DispatchWatch {
  readonly bins = new Map<string, Covered>();
  readonly #fromMs: number;
  #dispatcher: PoolDispatcher | undefined;

  /** What is sent before `fromMs` does not count: nothing is learned by then. */
  constructor(fromMs: number) {
    this.#fromMs = fromMs;
  }

  listener(listener: VerdictListener): VerdictListener {
    return listener;
  }

  dispatcher<Kind extends Dispatcher>(dispatcher: Kind): Kind {
    if (!(dispatcher instanceof PoolDispatcher)) return dispatcher;
    this.#dispatcher = dispatcher;
    const started = dispatcher.started.bind(dispatcher);
    dispatcher.started = (leaseId: LeaseId, firstTokenAfterMs: number) => {
      this.#judge("ttft", this.#leaseOf(leaseId)?.foreseen.ttft, firstTokenAfterMs);
      started(leaseId, firstTokenAfterMs);
    };
    const settle = dispatcher.settle.bind(dispatcher);
    dispatcher.settle = (leaseId: LeaseId, outcome: Outcome) => {
      this.#ended(this.#leaseOf(leaseId), outcome);
      settle(leaseId, outcome);
    };
    return dispatcher;
  }

  #leaseOf(leaseId: LeaseId): Lease | undefined {
    const lease = this.#dispatcher?.pool.state.leases.get(leaseId);
    return lease !== undefined && lease.dispatchedAtMs >= this.#fromMs ? lease : undefined;
  }

  #ended(lease: Lease | undefined, { kind, decodeMs, outputTokens = 0 }: Outcome): void {
    if (lease === undefined || kind !== "completed") return;
    if (decodeMs === undefined || outputTokens < TPOT_TOKENS_MIN) return;
    const { tpot } = lease.foreseen;
    this.#judge("tpot", tpot, judgedPaceMs(tpot, decodeMs / (outputTokens - 1)));
  }

  #judge(
    dimension: ForecastDimension,
    forecast: PastForecast | undefined,
    actualMs: number | undefined,
  ): void {
    if (forecast === undefined || actualMs === undefined) return;
    const bin = binOf(binPositionOf(dimension, forecast.predictedMs, forecast));
    const name = `${dimension}, bin ${bin}`;
    const covered = this.bins.get(name) ?? { dimension, samples: 0, exceeded: 0 };
    this.bins.set(name, covered);
    covered.samples += 1;
    if (actualMs > forecast.boundMs) covered.exceeded += 1;
  }
}
