import { describe, expect, test } from "vitest";
import { TINY } from "../../simulator/hardware-profile.ts";
import type { ReplicaEvent, ReplicaRequest } from "../../simulator/replica-request.ts";
import { SimulatedReplica } from "../../simulator/simulated-replica.ts";
import { World } from "../../simulator/world.ts";
import { tokenRange } from "../support/engine-builders.ts";

const BOUNDS = { endAtMs: 60_000, eventsMax: 100_000 };

function aRequest(id: string, change: Partial<ReplicaRequest> = {}): ReplicaRequest {
  return {
    id,
    tenant: "tenant",
    promptTokenIds: tokenRange(40),
    answerTokenIds: tokenRange(5, 7000),
    ...change,
  };
}

/** A replica, and everything it said with the instant at which it did. */
function aReplica(options: { seed?: number } = {}) {
  const world = new World(options.seed ?? 1);
  const said: { readonly atMs: number; readonly event: ReplicaEvent }[] = [];
  let changes = 0;
  const replica = new SimulatedReplica({
    world,
    profile: { ...TINY, stepsPerStall: Infinity },
    endpointUrl: "http://replica.example",
    modelId: "model",
    onEvents: (events) => said.push(...events.map((event) => ({ atMs: world.nowMs, event }))),
    onChange: () => (changes += 1),
  });
  return { world, replica, said, changes: () => changes };
}

const endOf = (said: readonly { readonly event: ReplicaEvent }[], id: string) =>
  said.find(({ event }) => event.id === id && event.kind !== "token")?.event;

function historyOf(seed: number) {
  const { world, replica, said } = aReplica({ seed });
  replica.submit(aRequest("a"));
  world.runToEnd(BOUNDS);
  return said;
}

describe("SimulatedReplica", () => {
  test("a request says its answer token by token, each a step apart, and ends whole", () => {
    const { world, replica, said } = aReplica();
    replica.submit(aRequest("a"));
    world.runToEnd(BOUNDS);
    const tokens = said.flatMap(({ event }) => (event.kind === "token" ? [event.tokenId] : []));
    expect(tokens).toEqual(tokenRange(5, 7000));
    expect(endOf(said, "a")).toMatchObject({ kind: "finished", promptTokens: 40, outputTokens: 5 });
    const instants = said.slice(0, 5).map(({ atMs }) => atMs);
    expect(new Set(instants).size).toBe(5);
    expect(replica.requests).toBe(0);
    replica.checkInvariants();
  });

  test("prompts that begin alike are prefilled only once", () => {
    const { world, replica, said } = aReplica();
    const prompt = tokenRange(64);
    replica.submit(aRequest("a", { promptTokenIds: prompt }));
    world.runToEnd(BOUNDS);
    replica.submit(aRequest("b", { promptTokenIds: [...prompt, 1, 2, 3] }));
    replica.submit(aRequest("c", { promptTokenIds: [9, ...prompt] }));
    world.runToEnd({ ...BOUNDS, endAtMs: 120_000 });
    expect(endOf(said, "b")).toMatchObject({ cachedTokens: 64 });
    expect(endOf(said, "c")).toMatchObject({ cachedTokens: 0 });
  });

  test("its reports tell what waits and runs, and which dispatch came last", () => {
    const { world, replica } = aReplica();
    for (let number = 1; number <= TINY.sequencesMax + 3; number += 1) {
      replica.submit(aRequest(`r${number}`, { dispatch: `epoch.${number}` }));
    }
    world.runToEnd({ ...BOUNDS, endAtMs: 60 });
    const report = replica.report(1);
    expect(report.runningRequests + report.queuedRequests).toBe(TINY.sequencesMax + 3);
    expect(report.lastDispatch).toEqual({ epoch: "epoch", number: TINY.sequencesMax + 3 });
    expect(report.usedBlocks).toBeGreaterThan(0);
    world.runToEnd(BOUNDS);
    expect(replica.report(2)).toMatchObject({
      runningRequests: 0,
      queuedRequests: 0,
      usedBlocks: 0,
    });
  });

  test("a straggler of an old epoch does not bring that epoch back to its reports", () => {
    const { replica } = aReplica();
    for (const [index, dispatch] of ["old.1", "new.1", "old.2"].entries()) {
      replica.submit(aRequest(`r${index}`, { dispatch }));
    }
    expect(replica.report(1).lastDispatch).toEqual({ epoch: "new", number: 1 });
  });

  test("it learns what its steps cost: its forecast of a batch is near what the machine takes", () => {
    const { world, replica } = aReplica();
    for (let number = 0; number < 400; number += 1) {
      const promptTokenIds = tokenRange(20 + ((number * 37) % 200), number * 1000);
      world.at(number * 100, () => replica.submit(aRequest(`r${number}`, { promptTokenIds })));
    }
    world.runToEnd(BOUNDS);
    const { speedRatio } = replica.report(1);
    expect(speedRatio).toBeGreaterThan(0.8);
    expect(speedRatio).toBeLessThan(1.25);
  });

  test("a slow replica is seen in the speed that it reports", () => {
    const { world, replica } = aReplica();
    for (let number = 0; number < 200; number += 1) {
      world.at(number * 100, () => replica.submit(aRequest(`r${number}`)));
    }
    world.at(10_000, () => replica.slowDown(3));
    world.runToEnd({ ...BOUNDS, endAtMs: 9_999 });
    const before = replica.report(1).speedRatio;
    world.runToEnd({ ...BOUNDS, endAtMs: 11_000 });
    expect(replica.report(2).speedRatio / before).toBeGreaterThan(1.5);
  });

  test("a frozen replica says nothing until the thaw, and loses nothing", () => {
    const { world, replica, said } = aReplica();
    replica.submit(aRequest("a"));
    world.at(1, () => replica.freeze());
    world.runToEnd({ ...BOUNDS, endAtMs: 30_000 });
    expect(said).toEqual([]);
    replica.submit(aRequest("b"));
    replica.thaw();
    world.runToEnd(BOUNDS);
    expect(endOf(said, "a")).toMatchObject({ kind: "finished" });
    expect(endOf(said, "b")).toMatchObject({ kind: "finished" });
  });

  test("a process that dies loses its requests and its cache, and the next one is another instance", () => {
    const { world, replica, said } = aReplica();
    const { instanceId } = replica.hello;
    replica.submit(aRequest("a", { answerTokenIds: tokenRange(500) }));
    world.at(50, () => replica.die());
    world.at(60, () => expect(replica.submit(aRequest("refused"))).toBe(false));
    world.at(70, () => replica.rise());
    world.at(80, () => replica.submit(aRequest("b")));
    world.runToEnd(BOUNDS);
    expect(endOf(said, "a")).toEqual({ kind: "lost", id: "a" });
    expect(endOf(said, "b")).toMatchObject({ kind: "finished", cachedTokens: 0 });
    expect(replica.hello.instanceId).not.toBe(instanceId);
    expect(said.filter(({ event }) => event.id === "a").at(-1)?.event.kind).toBe("lost");
  });

  test("a cancelled request ends at the next step, and what it held is free", () => {
    const { world, replica, said, changes } = aReplica();
    replica.submit(aRequest("a", { answerTokenIds: tokenRange(500) }));
    world.at(100, () => replica.cancel("a"));
    world.runToEnd(BOUNDS);
    expect(endOf(said, "a")).toMatchObject({ kind: "finished", reason: "cancelled" });
    expect(replica.report(1).usedBlocks).toBe(0);
    expect(changes()).toBeGreaterThan(0);
  });

  test("a draining replica finishes what it has and refuses the rest", () => {
    const { world, replica, said } = aReplica();
    replica.submit(aRequest("a"));
    replica.drain();
    replica.submit(aRequest("b"));
    world.runToEnd(BOUNDS);
    expect(endOf(said, "a")).toMatchObject({ kind: "finished" });
    expect(endOf(said, "b")).toMatchObject({ kind: "refused", reason: "draining" });
    expect(replica.report(1).draining).toBe(true);
  });

  test("one seed gives one history, another seed another", () => {
    expect(historyOf(1)).toEqual(historyOf(1));
    expect(historyOf(1)).not.toEqual(historyOf(2));
  });
});
