import { describe, expect, test } from "vitest";
import type { Offer, Outcome, Rejection } from "../../src/pool/offer.ts";
import { LeaseId, ReplicaId, TenantId } from "../../src/protocol/ids.ts";
import type { ClientBehaviour } from "../../simulator/client.ts";
import type { Dispatcher, VerdictListener } from "../../simulator/dispatcher.ts";
import { TINY } from "../../simulator/hardware-profile.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import type { ArrivalSpec } from "../../simulator/workloads/arrival.ts";
import { replicaUrl, Simulation, SIMULATED_MODEL_ID } from "../../simulator/simulation.ts";

const SPEC = {
  atMs: 10,
  tenantIndex: 0,
  promptTokens: 50,
  prefixTokens: 20,
  prefixGroup: 1,
  outputTokens: 20,
};
const REJECTION: Rejection = {
  code: "server_is_overloaded",
  reason: "infeasible",
  retryAfterMs: 2_000,
  predictedWaitMs: 100,
  promptTokens: 50,
};

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });

/** Decides as a test says, and remembers what it was told. */
class ScriptedDispatcher implements Dispatcher {
  readonly listener: VerdictListener;
  readonly offers: Offer[] = [];
  readonly settled: Outcome[] = [];
  readonly startedAfterMs: number[] = [];
  readonly withdrawn: string[] = [];
  readonly #decide: (offer: Offer, dispatcher: ScriptedDispatcher) => void;

  constructor(
    listener: VerdictListener,
    decide: (offer: Offer, dispatcher: ScriptedDispatcher) => void,
  ) {
    this.listener = listener;
    this.#decide = decide;
  }

  connected(): void {}
  reported(): void {}
  disconnected(): void {}
  checkInvariants(): void {}

  offer(offer: Offer): void {
    this.offers.push(offer);
    this.#decide(offer, this);
  }

  withdraw(requestId: string): void {
    this.withdrawn.push(requestId);
  }

  started(_leaseId: LeaseId, firstTokenAfterMs: number): void {
    this.startedAfterMs.push(firstTokenAfterMs);
  }

  settle(_leaseId: LeaseId, outcome: Outcome): void {
    this.settled.push(outcome);
  }

  /** Sends a request to the replica that has not failed it. */
  dispatch({ requestId, excludedReplicaIds }: Offer): LeaseId {
    const leaseId = LeaseId.parse(`lease.${this.offers.length}`);
    const url = excludedReplicaIds.length === 0 ? replicaUrl(0) : replicaUrl(1);
    this.listener.dispatched(requestId, leaseId, {
      replicaId: ReplicaId.parse(url),
      endpointUrl: url,
      dispatch: leaseId,
      queuedMs: 0,
      firstTokenBudgetMs: 1_000,
      forecast: { ttftMs: 100, tpotMs: 10 },
      isInProfile: true,
    });
    return leaseId;
  }
}

function run(
  decide: (offer: Offer, dispatcher: ScriptedDispatcher) => void,
  before: (simulation: Simulation) => void = () => {},
  clients?: ClientBehaviour,
  spec: ArrivalSpec = SPEC,
) {
  const records: RequestRecord[] = [];
  const dispatchers: ScriptedDispatcher[] = [];
  const simulation = new Simulation({
    seed: 1,
    profiles: [TINY, TINY],
    tenants: [
      {
        tenantId: TenantId.parse("tenant"),
        modelId: SIMULATED_MODEL_ID,
        share: { weight: 1, guaranteedRatio: 0.5, band: 0 },
        targets: { ttft: p99(1_000), tpot: p99(50) },
        isStreamed: true,
      },
    ],
    createDispatcher: (_, listener) => {
      const dispatcher = new ScriptedDispatcher(listener, decide);
      dispatchers.push(dispatcher);
      return dispatcher;
    },
    onRecord: (record) => records.push(record),
    ...(clients !== undefined && { clients }),
    timeouts: { firstTokenMs: 3_000, gapMs: 1_000 },
  });
  before(simulation);
  simulation.send([spec]);
  simulation.world.runToEnd({ endAtMs: 60_000, eventsMax: 100_000 });
  simulation.checkInvariants();
  const [dispatcher] = dispatchers;
  if (dispatcher === undefined) throw new Error("Expected a dispatcher, found none");
  return { records, dispatcher };
}

const toReplica = (offer: Offer, dispatcher: ScriptedDispatcher) => {
  dispatcher.dispatch(offer);
};

const refuse = (offer: Offer, dispatcher: ScriptedDispatcher) => {
  dispatcher.listener.rejected(offer.requestId, REJECTION);
};

/** How long after each refusal a client came back that is always refused. */
function gapsOf(retry: ClientBehaviour["retry"]): number[] {
  const clients = { retry, retriesMax: 2, leavesRatio: 0, leavesAfterMsMax: 0 };
  const { records } = run(refuse, () => {}, clients);
  expect(new Set(records.map(({ verdict }) => verdict))).toEqual(new Set(["refused"]));
  return records.slice(1).map((record, i) => record.arrivedAtMs - (records[i]?.endedAtMs ?? 0));
}

describe("Gateway", () => {
  test("a request that is dispatched gets its whole answer, and its lease is settled with the counts", () => {
    const { records, dispatcher } = run(toReplica);
    expect(records).toMatchObject([
      { verdict: "admitted", dispatches: 1, isInProfile: true, attainment: { kind: "good" } },
    ]);
    expect(dispatcher.startedAfterMs).toEqual([records[0]?.firstTokenAfterMs]);
    const counts = { promptTokens: 50, outputTokens: 20, cachedTokens: 0 };
    expect(dispatcher.settled).toMatchObject([{ kind: "completed", ...counts }]);
  });

  test.each([
    [2_000, 48],
    [2_047, 1],
  ])("an answer behind a prompt of %d ends where its replica's context does", (promptTokens, n) => {
    const spec = { ...SPEC, promptTokens, outputTokens: 60 };
    const { records, dispatcher } = run(toReplica, () => {}, undefined, spec);
    expect(records).toMatchObject([{ timeline: { ending: "length", outputTokens: n } }]);
    expect(dispatcher.settled).toMatchObject([
      { kind: "completed", promptTokens, outputTokens: n },
    ]);
  });

  test("a prompt that fills the context fails at every replica", () => {
    const spec = { ...SPEC, promptTokens: 2_048 };
    const { records } = run(toReplica, () => {}, undefined, spec);
    expect(records).toMatchObject([{ attainment: { missed: ["failed"] } }]);
  });

  test("a replica that fails before the first token is left out, and the request offered once more", () => {
    const { records, dispatcher } = run(toReplica, ({ links }) => links[0]?.replica.die());
    expect(dispatcher.offers.map(({ isRetry }) => isRetry)).toEqual([false, true]);
    expect(dispatcher.offers[1]?.excludedReplicaIds).toEqual([replicaUrl(0)]);
    expect(dispatcher.offers[1]?.elapsedMs).toBeGreaterThan(0);
    expect(dispatcher.settled.map(({ kind }) => kind)).toEqual(["upstream-failed", "completed"]);
    expect(records).toMatchObject([{ dispatches: 2, attainment: { kind: "good" } }]);
  });

  test("a black hole costs the time-out of the first token, and then another replica answers", () => {
    const { records } = run(toReplica, ({ links }) => links[0]?.setBlackHole(true));
    expect(records).toMatchObject([{ dispatches: 2, attainment: { missed: ["ttft"] } }]);
    expect(records[0]?.timeline.ttftMs).toBeGreaterThan(3_000);
  });

  test("a stream that breaks off behind its first token has failed, and nobody tries again", () => {
    const { records, dispatcher } = run(toReplica, ({ world, links }) => {
      world.at(150, () => links[0]?.replica.die());
    });
    expect(dispatcher.startedAfterMs).toHaveLength(1);
    expect(dispatcher.offers).toHaveLength(1);
    expect(records).toMatchObject([{ attainment: { missed: ["failed"] } }]);
  });

  test("a request whose slot is taken back is stopped there and offered again", () => {
    const { records, dispatcher } = run((offer, self) => {
      const leaseId = self.dispatch(offer);
      if (!offer.isRetry) self.listener.displaced(offer.requestId, leaseId);
    });
    expect(dispatcher.settled.map(({ kind }) => kind)).toEqual(["displaced", "completed"]);
    expect(records).toMatchObject([{ dispatches: 2, verdict: "admitted" }]);
  });

  test("a refusal ends a request, and clients come back as their kind does", () => {
    expect(gapsOf("never")).toEqual([]);
    expect(gapsOf("as-told")).toEqual([2_000, 2_000]);
    expect(Math.max(...gapsOf("at-once"))).toBeLessThan(100);
  });

  test("a client that leaves while it waits is withdrawn; one that leaves later frees its slot", () => {
    const clients = { retry: "never", retriesMax: 0, leavesRatio: 1 } as const;
    const waiting = run(
      () => {},
      () => {},
      { ...clients, leavesAfterMsMax: 50 },
    );
    expect(waiting.records).toMatchObject([{ verdict: "unserved" }]);
    expect(waiting.dispatcher.withdrawn).toHaveLength(1);
    const running = run(toReplica, () => {}, { ...clients, leavesAfterMsMax: 50 });
    expect(running.dispatcher.settled.map(({ kind }) => kind)).toEqual(["client-gone"]);
  });
});
