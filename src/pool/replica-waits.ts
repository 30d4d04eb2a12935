import type { ForecastWaits } from "../forecast/latency.ts";
import { forecastLatency } from "../forecast/latency.ts";
import type { KvGrowth } from "../forecast/kv-peak.ts";
import { kvWaitMs, peakKvTokens } from "../forecast/kv-peak.ts";
import type { OutputLengths } from "../forecast/output-lengths.ts";
import type { ResidentLife } from "../forecast/resident-life.ts";
import { residentLives } from "../forecast/resident-life.ts";
import { slotWaitMs } from "../forecast/slot-wait.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import type { Replica } from "../replicas/replica.ts";
import { NOMINAL_REQUEST } from "./capacity.ts";

const NO_WAITS: ForecastWaits = { slotMs: 0, kvMs: 0 };
/** One that is there already, for the pace of those that run. */
const NOBODY = { promptTokens: 0, cachedTokens: 0, outputTokens: 0 } as const;

interface Outlook {
  lives?: readonly ResidentLife[];
  growths?: readonly KvGrowth[];
  slotMs?: number;
  kvPeakTokens?: number;
}

/**
 * What has to be reckoned over all residents of a replica, and is the same for every request: done once
 * for each state of its load, and only where slots or KV are short.
 */
export class ReplicaWaits {
  readonly #outputLengths: OutputLengths;
  #outlooks = new WeakMap<ReplicaLoad, Outlook>();

  constructor(outputLengths: OutputLengths) {
    this.#outputLengths = outputLengths;
  }

  /**
   * What a request with so much to compute waits for before it can begin. On an empty replica nobody is
   * there to wait for: what does not fit, it refuses itself.
   */
  of(replica: Replica, load: ReplicaLoad, kvTokens: number, nowMs: number): ForecastWaits {
    if (load.sequences === 0) return NO_WAITS;
    const isSlotFree = load.sequences < load.sequencesMax;
    const freeTokens = load.kvTokensMax - load.kvTokens;
    if (isSlotFree && freeTokens >= kvTokens) return NO_WAITS;
    const outlook = this.#outlook(load);
    const tpotMs = paceOf(load);
    const lives = this.#lives(outlook, replica, tpotMs, nowMs);
    outlook.slotMs ??= slotWaitMs({
      lives,
      load,
      tpotMs,
      strangerTokens: NOMINAL_REQUEST.outputTokens,
    });
    const growths = (outlook.growths ??= lives.map(toGrowth));
    return {
      slotMs: outlook.slotMs,
      kvMs: kvWaitMs(growths, { neededTokens: kvTokens, freeTokens, tpotMs }),
    };
  }

  /** The most KV that those who are there come to hold. */
  kvPeakTokens(replica: Replica, load: ReplicaLoad, nowMs: number): number {
    const outlook = this.#outlook(load);
    const lives = this.#lives(outlook, replica, paceOf(load), nowMs);
    const growths = (outlook.growths ??= lives.map(toGrowth));
    return (outlook.kvPeakTokens ??= peakKvTokens(growths));
  }

  /**
   * Another output was learned, so what was reckoned by the lengths before is void: what a pool decides
   * may not depend on what it happens to have reckoned already.
   */
  forget(): void {
    this.#outlooks = new WeakMap();
  }

  #outlook(load: ReplicaLoad): Outlook {
    const known = this.#outlooks.get(load);
    if (known !== undefined) return known;
    const outlook: Outlook = {};
    this.#outlooks.set(load, outlook);
    return outlook;
  }

  #lives(
    outlook: Outlook,
    replica: Replica,
    tpotMs: number,
    nowMs: number,
  ): readonly ResidentLife[] {
    return (outlook.lives ??= residentLives(replica.residents(), this.#outputLengths, {
      nowMs,
      tpotMs,
    }));
  }
}

/** Milliseconds a token of those who decode there. */
export function paceOf(load: ReplicaLoad): number {
  return forecastLatency(NOBODY, load, NO_WAITS).tpotMs;
}

function toGrowth({ curve, soFarTokens, promptTokens, outputTokensMax }: ResidentLife): KvGrowth {
  return {
    usedTokens: promptTokens + soFarTokens,
    leftTokens: curve.residualTokens(soFarTokens, outputTokensMax),
  };
}
