import { describe, expect, test } from "vitest";
import type { ReplicaHello, ReplicaReport } from "../../../src/protocol/engine-api.ts";
import type { ReplicaSettings } from "../../../src/replicas/replica.ts";
import { REPORT_AGE_MS_MAX, Replica } from "../../../src/replicas/replica.ts";
import { aHello, aReport, EPOCH, replicaIdOf, urlOf } from "../../support/pool-builders.ts";

const SETTINGS: ReplicaSettings = { replicaId: replicaIdOf(0), endpointUrl: urlOf(0) };

/** A replica that has said hello and reported once, at instant 0. */
function aReplica(
  options: {
    readonly settings?: Partial<ReplicaSettings>;
    readonly hello?: Partial<ReplicaHello>;
    readonly report?: Partial<ReplicaReport>;
  } = {},
): Replica {
  const replica = new Replica({ ...SETTINGS, ...options.settings });
  replica.connect(aHello(0, options.hello));
  replica.report(aReport(1, options.report), { epoch: EPOCH, nowMs: 0 });
  return replica;
}

let dispatchCount = 0;

/** Sends a prompt of so many tokens and returns the number of its dispatch. */
function send(replica: Replica, promptTokens: number): number {
  dispatchCount += 1;
  replica.take({ dispatchNumber: dispatchCount, promptTokens });
  return dispatchCount;
}

const at = (nowMs: number) => ({ epoch: EPOCH, nowMs });
const acknowledging = (number: number, epoch = EPOCH) => ({ lastDispatch: { epoch, number } });

describe("Replica.stateAt()", () => {
  test("a replica is ready only once it has connected and reported", () => {
    const replica = new Replica(SETTINGS);
    expect(replica.stateAt(0)).toBe("disconnected");
    replica.connect(aHello(0));
    expect(replica.stateAt(0)).toBe("silent");
    replica.report(aReport(1), at(0));
    expect(replica.stateAt(0)).toBe("ready");
  });

  test("a replica falls silent when its last report is too old, and comes back with the next", () => {
    const replica = aReplica();
    expect(replica.stateAt(REPORT_AGE_MS_MAX)).toBe("ready");
    expect(replica.stateAt(REPORT_AGE_MS_MAX + 1)).toBe("silent");
    replica.report(aReport(2), at(REPORT_AGE_MS_MAX + 1));
    expect(replica.stateAt(REPORT_AGE_MS_MAX + 1)).toBe("ready");
  });

  test("a draining replica says so", () => {
    expect(aReplica({ report: { draining: true } }).stateAt(0)).toBe("draining");
  });

  test("a replica that left the configuration is removed until it is configured again", () => {
    const replica = aReplica();
    replica.remove();
    expect(replica.stateAt(0)).toBe("removed");
    replica.configure(SETTINGS);
    expect(replica.stateAt(0)).toBe("disconnected");
  });

  test("another URL is another process, which must say hello first", () => {
    const replica = aReplica();
    replica.configure({ ...SETTINGS, endpointUrl: urlOf(1) });
    expect(replica.stateAt(0)).toBe("disconnected");
    expect(replica.endpointUrl).toBe(urlOf(1));
  });

  test("the same process is ready as soon as it reconnects, while its last report is fresh", () => {
    const replica = aReplica();
    replica.disconnect();
    expect(replica.stateAt(0)).toBe("disconnected");
    replica.connect(aHello(0));
    expect(replica.stateAt(REPORT_AGE_MS_MAX)).toBe("ready");
    expect(replica.stateAt(REPORT_AGE_MS_MAX + 1)).toBe("silent");
  });

  test("another process is silent until it reports", () => {
    const replica = aReplica();
    replica.connect(aHello(0, { instanceId: "life-2" }));
    expect(replica.stateAt(0)).toBe("silent");
  });
});

describe("Replica.report()", () => {
  test("a report that is late or repeated changes nothing", () => {
    const replica = aReplica();
    expect(replica.report(aReport(3, { stepMs: 30 }), at(1))).toBe(true);
    expect(replica.report(aReport(3, { stepMs: 99 }), at(2))).toBe(false);
    expect(replica.report(aReport(2, { stepMs: 99 }), at(3))).toBe(false);
    expect(replica.lastReport?.stepMs).toBe(30);
  });

  test("sequence numbers begin anew with every connection", () => {
    const replica = aReplica();
    replica.report(aReport(9), at(0));
    replica.connect(aHello(0));
    expect(replica.report(aReport(1), at(0))).toBe(true);
  });

  test("a report that outlives its connection is not heard", () => {
    const replica = aReplica();
    replica.disconnect();
    expect(replica.report(aReport(2), at(0))).toBe(false);
    expect(replica.stateAt(0)).toBe("disconnected");
  });
});

describe("the ledger of a replica", () => {
  test("what was sent since the report is added to what the report says", () => {
    const replica = aReplica({ report: { queuedUncachedTokens: 100 } });
    expect(replica.predictedWaitMs(50)).toBe(160);
    send(replica, 200);
    send(replica, 300);
    expect(replica.predictedWaitMs(50)).toBe(660);
  });

  test("a dispatch leaves the ledger when a report acknowledges it", () => {
    const replica = aReplica();
    const first = send(replica, 200);
    const second = send(replica, 300);
    replica.report(aReport(2, { ...acknowledging(first), queuedUncachedTokens: 200 }), at(1));
    expect(replica.predictedWaitMs(0)).toBe(510);
    replica.report(aReport(3, acknowledging(second)), at(2));
    expect(replica.predictedWaitMs(0)).toBe(10);
    replica.checkInvariants();
  });

  test("a number of another epoch acknowledges nothing", () => {
    const replica = aReplica();
    const number = send(replica, 200);
    replica.report(aReport(2, acknowledging(number, "another life")), at(1));
    expect(replica.predictedWaitMs(0)).toBe(210);
  });

  test("a request that ends before it was reported leaves the ledger", () => {
    const replica = aReplica();
    replica.release(send(replica, 200));
    expect(replica.predictedWaitMs(0)).toBe(10);
    expect(replica.outstanding).toBe(0);
    replica.checkInvariants();
  });

  test("a restart of the replica voids its ledger and its slots", () => {
    const replica = aReplica();
    send(replica, 200);
    expect(replica.connect(aHello(0, { instanceId: "life-2" })).restarted).toBe(true);
    replica.report(aReport(1), at(1));
    expect(replica.outstanding).toBe(0);
    expect(replica.freeSlots).toBe(4);
    expect(replica.predictedWaitMs(0)).toBe(10);
  });

  test("a new connection of the same process keeps the ledger", () => {
    const replica = aReplica();
    send(replica, 200);
    replica.disconnect();
    expect(replica.connect(aHello(0)).restarted).toBe(false);
    expect(replica.outstanding).toBe(1);
    expect(replica.predictedWaitMs(0)).toBe(210);
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
    expect(new Replica(SETTINGS).freeSlots).toBe(0);
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

describe("Replica.predictedWaitMs()", () => {
  test("a replica that has measured no speed is given a modest one", () => {
    const replica = aReplica({ report: { prefillTokensPerSecond: 0 } });
    expect(replica.predictedWaitMs(1000)).toBeGreaterThan(100);
    expect(replica.predictedWaitMs(1000)).toBeLessThan(10_000);
  });

  test("while all sequences are taken, the wait for one to end is added", () => {
    const replica = aReplica({ hello: { sequencesMax: 2, queueMax: 8 } });
    replica.learnHold(4000, 0);
    send(replica, 0);
    expect(replica.predictedWaitMs(0)).toBe(10);
    send(replica, 0);
    expect(replica.predictedWaitMs(0)).toBe(10 + 2000);
    send(replica, 0);
    expect(replica.predictedWaitMs(0)).toBe(10 + 4000);
  });

  test("as long as no request was seen to end, a taken sequence adds nothing", () => {
    const replica = aReplica({ hello: { sequencesMax: 1, queueMax: 8 } });
    send(replica, 0);
    expect(replica.predictedWaitMs(0)).toBe(10);
  });
});
