import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldBack } from "../../../src/admission/hold-back.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { Calibration } from "../../../src/forecast/calibration.ts";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { believedTpotMs, believedTtftMs } from "../../../src/pool/believed-bounds.ts";
import { toPoolRequest } from "../../../src/pool/intake.ts";
import type { Mechanisms } from "../../../src/pool/mechanisms.ts";
import { ALL_MECHANISMS } from "../../../src/pool/mechanisms.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import type { PlacementParts } from "../../../src/pool/placement-parts.ts";
import { Placement } from "../../../src/pool/placement.ts";
import type { PoolRequest } from "../../../src/pool/pool-request.ts";
import { ReplicaWaits } from "../../../src/pool/replica-waits.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import { Turns } from "../../../src/routing/turns.ts";
import { anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import {
  aHello,
  aReport,
  aSentRequest,
  EPOCH,
  replicaIdOf,
  settingsOf,
} from "../../support/replica-builders.ts";
import { aLease } from "./leases.ts";

const NOW = { nowMs: 0, isQueueEmpty: true } as const;

/** What excess may use of a target where others wait. */
const HELD_RATIO = 0.75;

interface Busy {
  readonly speedRatio?: number;
  readonly queuedTokens?: number;
  readonly running?: number;
}

function replicaWith(index: number, { speedRatio = 1, queuedTokens = 0, running = 0 }: Busy = {}) {
  const replica = new Replica(settingsOf(index));
  replica.connect(aHello(index, { sequencesMax: 16 }), 0);
  const report = aReport(1, {
    speedRatio,
    queuedUncachedTokens: queuedTokens,
    runningRequests: running,
    runningKvTokens: running * 100,
    usedBlocks: running * 7,
  });
  replica.report(report, { epoch: EPOCH, nowMs: 0 });
  return replica;
}

function aPlacement(
  mechanisms: Partial<Mechanisms> = {},
  seed = 1,
  parts: Partial<PlacementParts> = {},
): Placement {
  return new Placement({
    replicas: [],
    calibration: new Calibration(),
    waits: new ReplicaWaits(new OutputLengths()),
    turns: new Turns(),
    holdBack: new HoldBack({ startRatio: HELD_RATIO }),
    courtesyRatio: () => 0,
    guardedTtftMs: () => Infinity,
    mechanisms: { ...ALL_MECHANISMS, ...mechanisms },
    random: seededRandom(seed),
    ...parts,
  });
}

function aRequest(change: Partial<Offer> = {}, isInProfile = true): PoolRequest {
  const parts = {
    tokenEstimate: new TokenEstimate(),
    outputLengths: new OutputLengths(),
    firstTokenMsMax: 60_000,
  };
  const offer = anOffer("r", { outputTokensMax: 50, ...change });
  return { ...toPoolRequest(offer, parts, undefined, 0), isInProfile };
}

const BUSY = fc.record({
  speedRatio: fc.double({ min: 0.3, max: 4, noNaN: true }),
  queuedTokens: fc.nat(1_500),
  running: fc.nat(20),
});
const OFFER = fc.record({
  promptBytes: fc.nat(4_000),
  ttftMs: fc.integer({ min: 50, max: 4_000 }),
  tpotMs: fc.integer({ min: 10, max: 100 }),
  isInProfile: fc.boolean(),
});

function requestOf({
  promptBytes,
  ttftMs,
  tpotMs,
  isInProfile,
}: {
  readonly promptBytes: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly isInProfile: boolean;
}): PoolRequest {
  const tpot = { percentileRatio: 0.99, limitMs: tpotMs };
  return aRequest({ promptBytes, targets: { ...firstTokenWithin(ttftMs), tpot } }, isInProfile);
}

/** What is left on a replica with so many requests where others wait. */
function headroomFor(isInProfile: boolean, running: number, parts: Partial<PlacementParts> = {}) {
  const replicas = [replicaWith(0, { running })];
  const moment = { ...NOW, isQueueEmpty: false };
  const { best } = aPlacement({}, 1, parts).place(aRequest({}, isInProfile), replicas, moment);
  return best?.headroomRatio ?? NaN;
}

describe("Placement", () => {
  test("whom it chooses could be sent it, its bounds are within its targets, and no other is named best", () => {
    let chosenCount = 0;
    fc.assert(
      fc.property(fc.array(BUSY, { maxLength: 6 }), OFFER, fc.nat(), (busy, drawn, seed) => {
        const replicas = busy.map((each, index) => replicaWith(index, each));
        const request = requestOf(drawn);
        const placement = aPlacement({}, seed);
        const { chosen, best } = placement.place(request, replicas, NOW);
        if (chosen === undefined) return;
        chosenCount += 1;
        const { ttft, tpot } = chosen.foreseen;
        expect(chosen.isFeasible).toBe(true);
        expect(ttft.predictedMs).toBeLessThanOrEqual(ttft.boundMs);
        const load = chosen.replica.loadAt(NOW.nowMs);
        expect(believedTtftMs(ttft, load)).toBeLessThanOrEqual(drawn.ttftMs);
        expect(believedTpotMs(tpot, load)).toBeLessThanOrEqual(drawn.tpotMs);
        expect(best?.headroomRatio).toBeGreaterThanOrEqual(chosen.headroomRatio);
      }),
    );
    expect(chosenCount).toBeGreaterThan(5);
  });

  test("who has most room once some is held back is named best, though another had more before", () => {
    const busy = replicaWith(0, { speedRatio: 0.3, running: 7 });
    const empty = replicaWith(1, { speedRatio: 0.6 });
    const request = requestOf({ promptBytes: 0, ttftMs: 50, tpotMs: 14, isInProfile: false });
    const { chosen, best } = aPlacement().place(request, [busy, empty], NOW);
    expect(chosen?.replicaId).toBe(empty.replicaId);
    expect(best?.replicaId).toBe(empty.replicaId);
    const inProfile = aPlacement().place({ ...request, isInProfile: true }, [busy, empty], NOW);
    expect(inProfile.best?.replicaId).toBe(busy.replicaId);
  });

  test("somebody is chosen exactly when somebody could be sent it", () => {
    fc.assert(
      fc.property(fc.array(BUSY, { maxLength: 6 }), OFFER, (busy, drawn) => {
        const replicas = busy.map((each, index) => replicaWith(index, each));
        // In profile, since what is held back from others goes by the best of all replicas.
        const request = requestOf({ ...drawn, isInProfile: true });
        const placement = aPlacement();
        const could = replicas.some((replica) => placement.couldTake(request, replica, NOW));
        expect(placement.place(request, replicas, NOW).chosen !== undefined).toBe(could);
      }),
    );
  });

  test("more work on a replica never makes it feasible", () => {
    fc.assert(
      fc.property(BUSY, OFFER, fc.integer({ min: 1, max: 1_000 }), (busy, drawn, more) => {
        const request = requestOf(drawn);
        const busier = replicaWith(0, { ...busy, queuedTokens: busy.queuedTokens + more });
        const could = aPlacement().couldTake(request, replicaWith(0, busy), NOW);
        expect(!aPlacement().couldTake(request, busier, NOW) || could).toBe(true);
      }),
    );
  });

  test("what is beyond a guarantee has no more room than what is within, and less where others wait", () => {
    const busy = [{ running: 4, queuedTokens: 300 }, { running: 2 }];
    const replicas = busy.map((each, index) => replicaWith(index, each));
    let heldBack = 0;
    for (let limitMs = 20; limitMs < 3_000; limitMs += 20) {
      const targets = firstTokenWithin(limitMs);
      const could = (isInProfile: boolean, isQueueEmpty: boolean) =>
        aPlacement().place(aRequest({ targets }, isInProfile), replicas, { nowMs: 0, isQueueEmpty })
          .chosen !== undefined;
      expect(!could(false, true) || could(true, true)).toBe(true);
      expect(!could(false, false) || could(false, true)).toBe(true);
      if (could(true, false) && !could(false, false)) heldBack += 1;
    }
    expect(heldBack).toBeGreaterThan(0);
  });

  test("whose tenant is ahead leaves more of a busy replica, unless it is within its guarantee", () => {
    const ahead: Partial<PlacementParts> = { courtesyRatio: () => 0.1 };
    expect(headroomFor(false, 4, ahead)).toBeCloseTo(headroomFor(false, 4) - 0.1);
    expect(headroomFor(true, 4, ahead)).toBe(headroomFor(true, 4));
    expect(headroomFor(false, 0, ahead)).toBe(headroomFor(false, 0));
  });

  test("without admission everything goes somewhere, and to where it suffers least", () => {
    const replicas = [3_000, 1_000, 2_000].map((queuedTokens, index) =>
      replicaWith(index, { queuedTokens }),
    );
    const request = aRequest({ targets: firstTokenWithin(100) });
    expect(aPlacement().place(request, replicas, NOW).chosen).toBeUndefined();
    const { chosen } = aPlacement({ admission: false }).place(request, replicas, NOW);
    expect(chosen?.replicaId).toBe(replicaIdOf(1));
  });

  test("a slower replica of a mixed pool is used where it is fast enough, and not elsewhere", () => {
    const slow = replicaWith(0, { speedRatio: 3 });
    expect(aPlacement().couldTake(aRequest(), slow, NOW)).toBe(true);
    const brisk = { ...firstTokenWithin(1_000), tpot: { percentileRatio: 0.99, limitMs: 25 } };
    expect(aPlacement().couldTake(aRequest({ targets: brisk }), slow, NOW)).toBe(false);
    expect(aPlacement().couldTake(aRequest({ targets: brisk }), replicaWith(1), NOW)).toBe(true);
  });

  test("a replica without a free slot could take it only in another's place", () => {
    const replica = new Replica(settingsOf(0));
    replica.connect(aHello(0, { sequencesMax: 1 }), 0);
    replica.report(aReport(1), { epoch: EPOCH, nowMs: 0 });
    replica.take(aSentRequest(1), 0);
    const request = aRequest();
    expect(aPlacement().couldTake(request, replica, NOW)).toBe(false);
    expect(aPlacement().couldTake(request, replica, NOW, aLease("there"))).toBe(true);
  });

  describe("beside somebody who is guaranteed an early token", () => {
    const PATIENT = { targets: firstTokenWithin(20_000), promptBytes: 3_500 } as const;
    const QUEUED: Busy = { queuedTokens: 400, running: 1 };

    /** Whether a patient request could go to a replica where its own target would hold by far. */
    function couldGo(
      guardedTtftMs: number,
      { isInProfile = false, isQueueEmpty = true, busy = QUEUED } = {},
    ): boolean {
      const request = aRequest(PATIENT, isInProfile);
      const placement = aPlacement({}, 1, { guardedTtftMs: () => guardedTtftMs });
      return placement.couldTake(request, replicaWith(0, busy), { nowMs: 0, isQueueEmpty });
    }
    const foreseen = aPlacement().place(aRequest(PATIENT), [replicaWith(0, QUEUED)], NOW).best;
    const boundMs = foreseen?.othersTtftMs ?? Infinity;

    test("excess is refused where it would wait for others until that one is due", () => {
      expect(couldGo(Infinity)).toBe(true);
      expect(couldGo(boundMs + 1)).toBe(true);
      expect(couldGo(boundMs - 1)).toBe(false);
    });

    test("what its own prompt takes is no queue", () => {
      const busy = { running: 1 };
      const { best } = aPlacement().place(aRequest(PATIENT), [replicaWith(0, busy)], NOW);
      const { ttftMs = 0, othersTtftMs = Infinity } = best ?? {};
      expect(othersTtftMs).toBeLessThan(ttftMs / 2);
      expect(couldGo(ttftMs / 2, { busy })).toBe(true);
    });

    test("excess may use of that target what it may use of its own", () => {
      const ratio = HELD_RATIO;
      expect(couldGo(boundMs / ratio + 1, { isQueueEmpty: false })).toBe(true);
      expect(couldGo(boundMs / ratio - 1, { isQueueEmpty: false })).toBe(false);
    });

    test("a request in profile goes by its own target alone", () => {
      expect(couldGo(boundMs / 10, { isInProfile: true })).toBe(true);
    });

    test("excess goes to an empty replica, where it is in nobody's way", () => {
      expect(couldGo(boundMs / 10)).toBe(false);
      expect(couldGo(boundMs / 10, { busy: {} })).toBe(true);
    });
  });

  describe("after forecasts that all fell far short", () => {
    const LONG = { outputTokensMax: 500 };
    const calibration = new Calibration();
    const { profile } = replicaWith(0);
    const sample = { profile, tenantId: "tenant-a", outputTokens: 500, targetMs: Infinity };
    const shock = { ...sample, predictedMs: 10, boundMs: 11, actualMs: 160 };
    for (let samples = 0; samples < 500; samples += 1) {
      calibration.learn("ttft", shock, 0);
      calibration.learn("tpot", shock, 0);
    }

    function predicted(busy: Busy) {
      const { best } = aPlacement().place(aRequest(LONG), [replicaWith(0, busy)], NOW);
      return { ttftMs: best?.foreseen.ttft.predictedMs, tpotMs: best?.foreseen.tpot.predictedMs };
    }

    function couldGo(kind: "ttft" | "tpot", limitMs: number, busy: Busy): boolean {
      const targets = { [kind]: { percentileRatio: 0.99, limitMs } };
      const placement = aPlacement({}, 1, { calibration });
      return placement.couldTake(aRequest({ ...LONG, targets }), replicaWith(0, busy), NOW);
    }

    test("an idle replica is believed to keep the forecast pace", () => {
      const { tpotMs = NaN } = predicted({});
      expect(couldGo("tpot", tpotMs - 0.1, {})).toBe(false);
      expect(couldGo("tpot", tpotMs + 0.1, {})).toBe(true);
    });

    test("a busy replica is believed to be slower by 1.6 at the most", () => {
      const { tpotMs = NaN } = predicted({ running: 1 });
      expect(couldGo("tpot", 1.6 * tpotMs - 0.1, { running: 1 })).toBe(false);
      expect(couldGo("tpot", 1.6 * tpotMs + 0.1, { running: 1 })).toBe(true);
    });

    test("an idle replica is believed to have a first token in twice the time", () => {
      const { ttftMs = NaN } = predicted({});
      expect(couldGo("ttft", 2 * ttftMs - 0.1, {})).toBe(false);
      expect(couldGo("ttft", 2 * ttftMs + 0.1, {})).toBe(true);
    });
  });

  test("asking whether a replica could draws no chance", () => {
    const placement = aPlacement();
    const replicas = Array.from({ length: 5 }, (_, index) => replicaWith(index));
    const request = aRequest();
    const draws = (asks: number) => {
      const fresh = aPlacement({}, 9);
      for (let ask = 0; ask < asks; ask += 1) {
        for (const replica of replicas) fresh.couldTake(request, replica, NOW);
      }
      return Array.from(
        { length: 20 },
        () => fresh.place(request, replicas, NOW).chosen?.replicaId,
      );
    };
    expect(draws(3)).toEqual(draws(0));
    expect(placement.couldTake(request, replicaWith(9), NOW)).toBe(true);
  });
});
