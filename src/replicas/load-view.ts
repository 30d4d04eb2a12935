import { assert } from "../base/assert.ts";
import { DecayingAverage } from "../base/average.ts";
import type { ReplicaReport } from "../protocol/engine-api.ts";
import { PLAIN_STEP, plainLoad } from "./plain-load.ts";
import { PrefillBacklog } from "./prefill-backlog.ts";
import { projectLoad } from "./project-load.ts";
import { freshSignalsOf, reportAgeMsOf } from "./replica-condition.ts";
import type { ReplicaLoad } from "./replica-load.ts";
import type { ReplicaState } from "./replica-state.ts";
import { slotsOf } from "./replica-state.ts";
import type { Residents, SentRequest } from "./residents.ts";
import type { PredictedDuration } from "./speed-factor.ts";
import { SpeedFactor } from "./speed-factor.ts";
import { stepCostOf, tellsStepCost } from "./step-prior.ts";
import type { ClaimedDuration } from "./claimed-speed.ts";
import { ClaimedSpeed, claimedSpeedRatio } from "./claimed-speed.ts";

/** An older report has missed a heartbeat: what keeps the replica from reporting may keep it from work. */
const REPORT_AGE_MS_LATE = 1_000;
const LATE_SPEED_RATIO = 1.5;
/** What an answer will meet in its life is told by more than the two seconds that a report looks back on. */
const PREFILL_TIME_HALF_LIFE_MS = 5_000;

/** What an answer says of a replica's speed: beside what was predicted, or beside what the replica told. */
export type LearnedDuration = PredictedDuration | ClaimedDuration;

/**
 * What a replica has on its hands, by its reports or, of one that never reports, by what we sent. What
 * was learned of its speed goes into both.
 */
export class LoadView {
  readonly #state: ReplicaState;
  readonly #residents: Residents;
  readonly #countsLedger: boolean;
  readonly #speed: SpeedFactor;
  readonly #claimedSpeed: ClaimedSpeed;
  readonly #prefillTimeRatio: DecayingAverage;
  readonly #backlog: PrefillBacklog;
  /** The last answer of `at`, until something changes. */
  #load: { readonly nowMs: number; readonly load: ReplicaLoad } | undefined;

  constructor(state: ReplicaState, residents: Residents, countsLedger: boolean) {
    this.#state = state;
    this.#residents = residents;
    this.#countsLedger = countsLedger;
    this.#speed = new SpeedFactor(state.speed);
    this.#claimedSpeed = new ClaimedSpeed(state.claimedSpeed);
    this.#prefillTimeRatio = new DecayingAverage(
      { halfLifeMs: PREFILL_TIME_HALF_LIFE_MS },
      state.prefillTime,
    );
    this.#backlog = new PrefillBacklog(state.backlog);
  }

  /** The load at an instant. Costs nothing when asked again before anything has happened. */
  at(nowMs: number): ReplicaLoad {
    if (this.#load?.nowMs === nowMs) return this.#load.load;
    const isPlain = this.#state.settings.plain !== undefined;
    const load = isPlain ? this.#plain(nowMs) : this.#projected(nowMs);
    this.#load = { nowMs, load };
    return load;
  }

  /** Something that the load is reckoned from is not what it was. */
  changed(): void {
    this.#load = undefined;
  }

  /** A request was sent there. */
  sent({ promptTokens, cachedTokens }: SentRequest, nowMs: number): void {
    if (this.#state.settings.plain !== undefined) {
      this.#backlog.add(promptTokens - cachedTokens, nowMs, this.#plainTokenMs);
    }
    this.changed();
  }

  /** A report was taken in. */
  reported({ prefillTimeRatio }: ReplicaReport, nowMs: number): void {
    this.#prefillTimeRatio.add(prefillTimeRatio, nowMs);
    this.changed();
  }

  /** Learns how right a prediction was. */
  learn(duration: LearnedDuration, nowMs: number): void {
    if ("claimedMs" in duration) this.#claimedSpeed.learn(duration, nowMs);
    else this.#speed.learn(duration);
    this.changed();
  }

  /** Another process may run on another machine. */
  forgetSpeed(): void {
    this.#speed.forget();
    this.#claimedSpeed.forget();
    this.changed();
  }

  #projected(nowMs: number): ReplicaLoad {
    const { hello, report, strangers, missing, releasedKvTokens } = this.#state;
    assert(hello !== undefined && report !== undefined, "a load needs a report");
    const elapsedMs = reportAgeMsOf(this.#state, nowMs);
    return projectLoad({
      hello,
      report,
      elapsedMs,
      step: stepCostOf(report),
      speedRatio: this.#speedRatioBy(report, elapsedMs),
      residents: this.#residents,
      countsLedger: this.#countsLedger,
      strangers,
      missing,
      releasedKvTokens,
      prefillTimeRatio: this.#prefillTimeRatio.value ?? report.prefillTimeRatio,
    });
  }

  #plain(nowMs: number): ReplicaLoad {
    return plainLoad({
      residents: this.#residents,
      strangers: this.#state.strangers,
      signals: freshSignalsOf(this.#state, nowMs),
      slots: slotsOf(this.#state),
      speedRatio: this.#speed.ratio,
      backlogTokens: this.#backlog.tokensAt(nowMs, this.#plainTokenMs),
      countsLedger: this.#countsLedger,
    });
  }

  #speedRatioBy(report: ReplicaReport, reportAgeMs: number): number {
    const ratio = tellsStepCost(report)
      ? report.speedRatio * claimedSpeedRatio(this.#state.claimedSpeed)
      : this.#speed.ratio;
    return isReportLate(reportAgeMs) ? LATE_SPEED_RATIO * ratio : ratio;
  }

  get #plainTokenMs(): number {
    return this.#speed.ratio * PLAIN_STEP.tokenMs;
  }
}

/** Whether a report is so old that its replica is taken to be slower than it says. */
export function isReportLate(reportAgeMs: number): boolean {
  return reportAgeMs > REPORT_AGE_MS_LATE;
}
