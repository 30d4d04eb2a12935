import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { REPORT_AGE_MS_MAX } from "../../../src/replicas/replica-condition.ts";
import { Replica } from "../../../src/replicas/replica.ts";
import {
  aHello,
  aReplica,
  aReport,
  aSentRequest,
  EPOCH,
  settingsOf,
  urlOf,
} from "../../support/replica-builders.ts";
import { ChainNames } from "../../../src/replicas/chain-names.ts";
import { chainOfText } from "../../support/prompt-chains.ts";

let dispatchCount = 0;

/** Sends a prompt of so many tokens and returns the number of its dispatch. */
function send(replica: Replica, promptTokens: number): number {
  dispatchCount += 1;
  replica.take(aSentRequest(dispatchCount, { promptTokens }), 0);
  return dispatchCount;
}

const at = (nowMs: number) => ({ epoch: EPOCH, nowMs });
const acknowledging = (number: number, epoch = EPOCH) => ({ lastDispatch: { epoch, number } });

describe("Replica.conditionAt()", () => {
  test("a replica is ready only once it has connected and reported", () => {
    const replica = new Replica(settingsOf(0));
    expect(replica.conditionAt(0)).toBe("disconnected");
    replica.connect(aHello(0), 0);
    expect(replica.conditionAt(0)).toBe("silent");
    replica.report(aReport(1), at(0));
    expect(replica.conditionAt(0)).toBe("ready");
  });

  test("a replica falls silent when its last report is too old, and comes back with the next", () => {
    const replica = aReplica();
    expect(replica.conditionAt(REPORT_AGE_MS_MAX)).toBe("ready");
    expect(replica.conditionAt(REPORT_AGE_MS_MAX + 1)).toBe("silent");
    replica.report(aReport(2), at(REPORT_AGE_MS_MAX + 1));
    expect(replica.conditionAt(REPORT_AGE_MS_MAX + 1)).toBe("ready");
  });

  test("a draining replica says so", () => {
    expect(aReplica({ report: { draining: true } }).conditionAt(0)).toBe("draining");
  });

  test("a replica that left the configuration is removed until it is configured again", () => {
    const replica = aReplica();
    replica.remove();
    expect(replica.conditionAt(0)).toBe("removed");
    replica.configure(settingsOf(0));
    expect(replica.conditionAt(0)).toBe("disconnected");
  });

  test("another URL is another process, which must say hello first", () => {
    const replica = aReplica();
    replica.configure(settingsOf(0, { endpointUrl: urlOf(1) }));
    expect(replica.conditionAt(0)).toBe("disconnected");
    expect(replica.endpointUrl).toBe(urlOf(1));
  });

  test("the same process is ready as soon as it reconnects, while its last report is fresh", () => {
    const replica = aReplica();
    replica.disconnect();
    expect(replica.conditionAt(0)).toBe("disconnected");
    replica.connect(aHello(0), 0);
    expect(replica.conditionAt(REPORT_AGE_MS_MAX)).toBe("ready");
    expect(replica.conditionAt(REPORT_AGE_MS_MAX + 1)).toBe("silent");
  });

  test("another process is silent until it reports", () => {
    const replica = aReplica();
    replica.connect(aHello(0, { instanceId: "life-2" }), 0);
    expect(replica.conditionAt(0)).toBe("silent");
  });
});

describe("Replica.report()", () => {
  test("a report that is late or repeated changes nothing", () => {
    const replica = aReplica();
    expect(replica.report(aReport(3, { stepMs: 30 }), at(1))).toBe(true);
    expect(replica.report(aReport(3, { stepMs: 99 }), at(2))).toBe(false);
    expect(replica.report(aReport(2, { stepMs: 99 }), at(3))).toBe(false);
    expect(replica.lastReport?.stepMs).toBe(30);
    expect(replica.reportAgeMs(5)).toBe(4);
  });

  test("sequence numbers begin anew with every connection", () => {
    const replica = aReplica();
    replica.report(aReport(9), at(0));
    replica.connect(aHello(0), 0);
    expect(replica.report(aReport(1), at(0))).toBe(true);
  });

  test("a report that outlives its connection is not heard", () => {
    const replica = aReplica();
    replica.disconnect();
    expect(replica.report(aReport(2), at(0))).toBe(false);
    expect(replica.conditionAt(0)).toBe("disconnected");
  });
});

describe("the ledger of a replica", () => {
  test("what was sent since the report is added to what the report says", () => {
    const report = { queuedUncachedTokens: 100, queuedRequests: 1, waitingKvTokens: 100 };
    const replica = aReplica({ report });
    expect(replica.loadAt(0)).toMatchObject({ prefillTokens: 100, sequences: 1, kvTokens: 100 });
    send(replica, 200);
    send(replica, 300);
    expect(replica.loadAt(0)).toMatchObject({ prefillTokens: 600, sequences: 3, kvTokens: 600 });
  });

  test("time drains what was reported, and nothing of what was sent since", () => {
    const replica = aReplica({ report: { queuedUncachedTokens: 100, queuedRequests: 1 } });
    send(replica, 200);
    expect(replica.loadAt(1000).prefillTokens).toBe(200);
  });

  test("a dispatch leaves the ledger when a report acknowledges it", () => {
    const replica = aReplica();
    const first = send(replica, 200);
    const second = send(replica, 300);
    const heard = { queuedUncachedTokens: 200, queuedRequests: 1 };
    replica.report(aReport(2, { ...acknowledging(first), ...heard }), at(0));
    expect(replica.loadAt(0)).toMatchObject({ prefillTokens: 500, sequences: 2 });
    replica.report(aReport(3, { ...acknowledging(second), runningRequests: 2 }), at(0));
    expect(replica.loadAt(0)).toMatchObject({ prefillTokens: 0, sequences: 2 });
    replica.checkInvariants();
  });

  test("a number of another epoch acknowledges nothing", () => {
    const replica = aReplica();
    const number = send(replica, 200);
    replica.report(aReport(2, acknowledging(number, "another life")), at(0));
    expect(replica.loadAt(0).prefillTokens).toBe(200);
  });

  test("a request that ends before it was reported leaves the ledger", () => {
    const replica = aReplica();
    replica.release(send(replica, 200));
    expect(replica.loadAt(0)).toMatchObject({ prefillTokens: 0, sequences: 0, kvTokens: 0 });
    expect(replica.outstanding).toBe(0);
    replica.checkInvariants();
  });

  test("what a replica has cached is forgotten at once when it leaves, though requests run there", () => {
    const replica = aReplica();
    const chain = chainOfText("k");
    send(replica, 200);
    replica.prefixes.note(chain, { isForeign: false, nowMs: 0 });
    replica.remove();
    expect(replica.outstanding).toBe(1);
    expect(replica.prefixes.hitRatio(new ChainNames(chain), 1)).toBe(0);
    expect(replica.state.prefixes.keys.size).toBe(0);
  });

  test("a restart of the replica voids its ledger, its slots and its cache", () => {
    const replica = aReplica();
    const chain = chainOfText("k");
    send(replica, 200);
    replica.prefixes.note(chain, { isForeign: false, nowMs: 0 });
    expect(replica.connect(aHello(0, { instanceId: "life-2" }), 1).restarted).toBe(true);
    replica.report(aReport(1), at(1));
    expect(replica.outstanding).toBe(0);
    expect(replica.freeSlots).toBe(4);
    expect(replica.prefixes.hitRatio(new ChainNames(chain), 1)).toBe(0);
    expect(replica.loadAt(1)).toMatchObject({ prefillTokens: 0, sequences: 0 });
    replica.checkInvariants();
  });

  test("a new connection of the same process keeps the ledger", () => {
    const replica = aReplica();
    send(replica, 200);
    replica.disconnect();
    expect(replica.connect(aHello(0), 0).restarted).toBe(false);
    expect(replica.outstanding).toBe(1);
    expect(replica.loadAt(0).prefillTokens).toBe(200);
  });

  test.each([
    { countsLedger: true, atMostOfAll: 0.2 },
    { countsLedger: false, atMostOfAll: 1 },
  ])("a burst within one heartbeat spreads out exactly if it counts: $countsLedger", (scene) => {
    const options = { countsLedger: scene.countsLedger };
    const hello = { sequencesMax: 64 };
    const replicas = [1, 2, 3, 4, 5].map(() => aReplica({ options, hello }));
    for (let request = 0; request < 50; request++) {
      const [first, ...others] = replicas;
      if (first === undefined) throw new Error("There are five replicas");
      const least = others.reduce((best, one) => {
        return one.loadAt(request).prefillTokens < best.loadAt(request).prefillTokens ? one : best;
      }, first);
      send(least, 500);
    }
    const most = Math.max(...replicas.map(({ outstanding }) => outstanding));
    expect(most / 50).toBe(scene.atMostOfAll);
  });
});

describe("Replica.freeSlots", () => {
  test("a replica has a slot for each sequence and each place in its queue", () => {
    expect(aReplica({ hello: { sequencesMax: 4, queueMax: 3 } }).freeSlots).toBe(7);
  });

  test("the configuration lowers the number of slots but never raises it", () => {
    expect(aReplica({ settings: { requestsMax: 2 } }).freeSlots).toBe(2);
    expect(aReplica({ settings: { requestsMax: 99 } }).freeSlots).toBe(4);
  });

  test("a replica that can run nothing has no slot, whatever it could queue", () => {
    expect(aReplica({ hello: { sequencesMax: 0, queueMax: 9 } }).freeSlots).toBe(0);
  });

  test("a replica that has never said hello has no slot", () => {
    expect(new Replica(settingsOf(0)).freeSlots).toBe(0);
  });

  test("no request is sent where no slot is free", () => {
    const replica = aReplica({ hello: { sequencesMax: 1 } });
    send(replica, 1);
    expect(() => send(replica, 1)).toThrow("a slot is taken only while one is free");
    expect(replica.outstanding).toBe(1);
  });

  test("requests of the pool's previous life take slots until they end there", () => {
    const replica = aReplica({ report: { runningRequests: 2, queuedRequests: 1 } });
    expect(replica.strangers).toBe(3);
    expect(replica.freeSlots).toBe(1);
    replica.report(aReport(2), at(1));
    expect(replica.freeSlots).toBe(4);
  });

  test("a request of ours is not counted twice once the report knows it", () => {
    const replica = aReplica();
    const number = send(replica, 1);
    expect(replica.freeSlots).toBe(3);
    replica.report(aReport(2, { ...acknowledging(number), runningRequests: 1 }), at(1));
    expect(replica.strangers).toBe(0);
    expect(replica.freeSlots).toBe(3);
  });

  test("a request that ended here but still runs there keeps its slot until the next report", () => {
    const replica = aReplica();
    const number = send(replica, 1);
    replica.release(number);
    replica.report(aReport(2, { ...acknowledging(number), runningRequests: 1 }), at(1));
    expect(replica.freeSlots).toBe(3);
  });
});

describe("Replica.loadAt()", () => {
  test("what has ended since the report is no load any more", () => {
    const replica = aReplica();
    const number = send(replica, 100);
    const there = { runningRequests: 2, runningKvTokens: 400, usedBlocks: 25 };
    replica.report(aReport(2, { ...acknowledging(number), ...there }), at(0));
    expect(replica.loadAt(0)).toMatchObject({ sequences: 2, kvTokens: 400 });
    replica.release(number);
    expect(replica.loadAt(0)).toMatchObject({ sequences: 1, kvTokens: 250 });
  });

  test("what has ended there counts no longer, even before anybody has told of its end", () => {
    const replica = aReplica();
    const numbers = [send(replica, 100), send(replica, 100)];
    replica.report(aReport(2, { ...acknowledging(numbers[1] ?? 0), runningRequests: 1 }), at(0));
    expect(replica.loadAt(0).sequences).toBe(1);
    expect(replica.freeSlots).toBe(2);
    for (const [index, number] of numbers.entries()) {
      replica.release(number);
      replica.checkInvariants();
      expect(replica.loadAt(0).sequences).toBe(1 - index);
    }
  });

  test("answers under way hold more KV with every step", () => {
    const report = { runningRequests: 3, runningKvTokens: 300, usedBlocks: 20 };
    expect(aReplica({ report }).loadAt(500).kvTokens).toBeCloseTo(300 + 3 * 50);
  });

  test("a replica that has missed a heartbeat is taken for slower than it said", () => {
    const replica = aReplica({ report: { speedRatio: 1.2 } });
    expect(replica.loadAt(1000).speedRatio).toBeCloseTo(1.2);
    expect(replica.loadAt(1001).speedRatio).toBeCloseTo(1.8);
    replica.report(aReport(2), at(1001));
    expect(replica.loadAt(1001).speedRatio).toBe(1);
  });

  test("the tightest targets are the promises to our residents, whatever gap the engine keeps", () => {
    const replica = aReplica({ hello: { keepsTbt: true }, report: { tightestTbtMs: 40 } });
    expect(replica.loadAt(0)).toMatchObject({ tightestTpotMs: Infinity, tightestTbtMs: Infinity });
    replica.take(aSentRequest((dispatchCount += 1), { tpotMs: 30, tbtMs: 60 }), 0);
    expect(replica.loadAt(0)).toMatchObject({ tightestTpotMs: 30, tightestTbtMs: 60 });
    replica.release(dispatchCount);
    expect(replica.loadAt(0)).toMatchObject({ tightestTpotMs: Infinity, tightestTbtMs: Infinity });
  });

  test("a gap is kept by an engine that says that it keeps gaps, and which one", () => {
    for (const [keepsTbt, tightestTbtMs, keptTbtMs] of [
      [true, 40, 40],
      [true, undefined, Infinity],
      [false, 40, Infinity],
    ] as const) {
      const replica = aReplica({
        hello: { keepsTbt },
        report: tightestTbtMs === undefined ? {} : { tightestTbtMs },
      });
      expect(replica.loadAt(0).keptTbtMs).toBe(keptTbtMs);
    }
  });

  test("is worked out once for an instant, until something happens", () => {
    const replica = aReplica();
    const load = replica.loadAt(5);
    expect(replica.loadAt(5)).toBe(load);
    const number = send(replica, 10);
    expect(replica.loadAt(5)).not.toBe(load);
    const later = replica.loadAt(5);
    replica.started(number, 5);
    expect(later.prefillTokens).toBe(10);
    expect(replica.loadAt(5).prefillTokens).toBe(0);
  });

  test("what completions teach counts only where the engine does not tell", () => {
    const silentStep = { fixedMs: 0, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };
    const telling = aReplica();
    const silent = aReplica({ report: { step: silentStep } });
    for (const replica of [telling, silent]) {
      for (let count = 0; count < 6; count++) {
        const { speedRatio } = replica.loadAt(0);
        replica.learn({ predictedMs: 100 * speedRatio, actualMs: 200, speedRatio }, 0);
      }
    }
    expect(telling.loadAt(0).speedRatio).toBe(1);
    expect(silent.loadAt(0).speedRatio).toBeGreaterThan(1.8);
  });
});

describe("Replica.checkInvariants()", () => {
  test("a request that outlives its lease is noticed", () => {
    const replica = aReplica();
    send(replica, 10);
    replica.checkInvariants(() => true);
    expect(() => replica.checkInvariants(() => false)).toThrow("with the end of its lease");
  });

  test("a request that was taken out beside the books is noticed", () => {
    const replica = aReplica();
    replica.state.residents.requests.delete(send(replica, 10));
    expect(() => replica.checkInvariants()).toThrow("are those of its requests");
  });
});

const HAPPENING = fc.record({
  kind: fc.constantFrom("take", "take", "take", "started", "release", "report", "connect", "fail"),
  pick: fc.nat(100),
  tokens: fc.nat(3000),
  afterMs: fc.nat(400),
});
const SIX_AND_TWO = { sequencesMax: 6, queueMax: 2 };

/** Lets one thing happen; `number` is that of the next dispatch and of the next report. */
function happen(
  replica: Replica,
  { kind, pick, tokens }: { kind: string; pick: number; tokens: number },
  { number, nowMs }: { number: number; nowMs: number },
): void {
  const residents = [...replica.residents()];
  const picked = residents[pick % Math.max(1, residents.length)]?.dispatchNumber;
  if (kind === "take" && replica.freeSlots > 0 && replica.health.canTake(nowMs)) {
    const targets = { tpotMs: pick + 1, tbtMs: pick % 2 === 0 ? undefined : tokens + 1 };
    replica.take(aSentRequest(number, { promptTokens: tokens + 0.5, ...targets }), nowMs);
  }
  if (kind === "started" && picked !== undefined) replica.started(picked, nowMs);
  if (kind === "release" && picked !== undefined) replica.release(picked);
  if (kind === "fail") replica.health.failed(picked ?? 0, nowMs, true);
  if (kind === "connect") {
    replica.connect(aHello(0, { ...SIX_AND_TWO, instanceId: `life-${pick % 2}` }), nowMs);
  }
  if (kind === "report") {
    const load = {
      queuedUncachedTokens: tokens,
      runningRequests: pick % 8,
      runningKvTokens: tokens,
      ...acknowledging(Math.max(1, number - (pick % 3))),
    };
    replica.report(aReport(number + 1, load), at(nowMs));
  }
}

/** All that a pool asks of a replica. */
function seenOf(replica: Replica, nowMs: number) {
  const load = replica.lastReport === undefined ? undefined : replica.loadAt(nowMs);
  return { load, facts: replica.factsAt(nowMs), capacity: replica.health.capacityRatio(nowMs) };
}

function copyOf(replica: Replica): Replica {
  return new Replica(settingsOf(0), {}, copyState(replica.state));
}

test("whatever happens, slots bound what is sent, and a copy of the state goes on as the replica does", () => {
  fc.assert(
    fc.property(fc.array(HAPPENING, { maxLength: 60 }), fc.nat(60), (happenings, copiedAt) => {
      const replica = aReplica({ hello: SIX_AND_TWO });
      let revived = copyOf(replica);
      let nowMs = 0;
      for (const [index, happening] of happenings.entries()) {
        nowMs += happening.afterMs;
        for (const one of [replica, revived]) {
          happen(one, happening, { number: index + 1, nowMs });
          one.checkInvariants();
        }
        if (index === copiedAt) revived = copyOf(replica);
        expect(replica.outstanding).toBeLessThanOrEqual(8);
        expect(seenOf(revived, nowMs)).toEqual(seenOf(replica, nowMs));
      }
    }),
  );
});
