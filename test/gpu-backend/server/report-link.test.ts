import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import type { ReportedState } from "../../../gpu-backend/engine/reported-load.ts";
import { PrefixFeed } from "../../../gpu-backend/engine/prefix-feed.ts";
import { ReportLink } from "../../../gpu-backend/server/report-link.ts";
import type { ReplicaHello, ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { eventually } from "../../support/eventually.ts";
import { type FakePool, type ReplicaConnection, startFakePool } from "../../support/fake-pool.ts";
import { takeFreePorts } from "../../support/free-ports.ts";

const HELLO: ReplicaHello = {
  kind: "hello",
  protocolVersion: 3,
  endpointUrl: "http://127.0.0.1:9101",
  instanceId: "life-1",
  modelId: "sluice-tiny",
  contextTokens: 2048,
  blockTokens: 16,
  blockCount: 256,
  sequencesMax: 16,
  queueMax: 64,
  batchTokensMax: 256,
  keepsTbt: true,
};

function aState(overrides: Partial<ReportedState> = {}): ReportedState {
  return {
    queuedRequests: 0,
    runningRequests: 0,
    usedBlocks: 0,
    blockTokens: 16,
    blockCount: 256,
    queuedUncachedTokens: 0,
    queuedAttendedPairs: 0,
    runningKvTokens: 0,
    waitingKvTokens: 0,
    step: { fixedMs: 1, tokenMs: 1, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 },
    speedRatio: 1,
    prefillTimeRatio: 0,
    prefillTokensPerSecond: 1000,
    stepMs: 2,
    tightestTbtMs: null,
    lastDispatch: null,
    draining: false,
    ...overrides,
  };
}

let pool: FakePool | undefined;
afterEach(() => pool?.close());

function dial(
  poolUrl: string,
  readState: () => ReportedState = aState,
  prefixFeed = new PrefixFeed(),
) {
  const events: string[] = [];
  const link = new ReportLink({
    poolUrl,
    secret: "a-secret-of-these-tests",
    hello: HELLO,
    readState,
    prefixFeed,
    log: (_, event) => events.push(event),
    random: () => 0,
  });
  onTestFinished(() => link.close());
  return { link, events };
}

async function connected(count = 1): Promise<ReplicaConnection> {
  await eventually(`connection ${count} has reported`, () => {
    return (pool?.connections[count - 1]?.frames.length ?? 0) >= 2;
  });
  const connection = pool?.connections[count - 1];
  if (connection === undefined) throw new Error("unreachable");
  return connection;
}

function reportsOf(connection: ReplicaConnection): ReplicaReport[] {
  return connection.frames.flatMap((frame) => (frame.kind === "report" ? frame : []));
}

function told(connection: ReplicaConnection) {
  return reportsOf(connection).flatMap(({ cached }) => cached ?? []);
}

describe("ReportLink", () => {
  test("dials in with the secret, says hello, and reports at once", async () => {
    pool = await startFakePool();
    dial(pool.url);
    const connection = await connected();
    expect(connection.path).toBe("/internal/pools/local");
    expect(connection.headers.authorization).toBe("Bearer a-secret-of-these-tests");
    expect(connection.frames[0]).toEqual(HELLO);
    expect(connection.frames[1]).toEqual({
      kind: "report",
      sequence: 1,
      ...aState(),
      cached: { sequence: 1, isWhole: true, stored: "", removed: "" },
    });
  });

  test("reports without a change, again and again, in sequence", async () => {
    pool = await startFakePool();
    dial(pool.url);
    const connection = await connected();
    await eventually("four reports came", () => reportsOf(connection).length >= 4);
    const sequences = reportsOf(connection).map((report) => report.sequence);
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  });

  test("tells a burst of changes in one report, which has the latest state", async () => {
    pool = await startFakePool();
    let queuedRequests = 0;
    const { link } = dial(pool.url, () => aState({ queuedRequests }));
    const connection = await connected();
    for (queuedRequests = 1; queuedRequests < 50; queuedRequests++) link.changed();
    // Where time has passed meanwhile a report without a change may be among them.
    const changes = () => reportsOf(connection).filter((report) => report.queuedRequests > 0);
    await eventually("the change came", () => changes().length > 0);
    expect(changes()[0]).toMatchObject({ queuedRequests: 50 });
    const sequences = reportsOf(connection).map((report) => report.sequence);
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  });

  test("dials again after a connection is lost, and counts from 1 again", async () => {
    pool = await startFakePool();
    const { events } = dial(pool.url);
    (await connected()).socket.terminate();
    const second = await connected(2);
    expect(second.frames[0]).toEqual(HELLO);
    expect(second.frames[1]).toMatchObject({ kind: "report", sequence: 1 });
    expect(events.slice(0, 3)).toEqual(["pool-connected", "pool-lost", "pool-connected"]);
  });

  test("tells what is cached when it is asked to, and again on every connection", async () => {
    pool = await startFakePool();
    const prefixFeed = new PrefixFeed();
    const { link } = dial(pool.url, aState, prefixFeed);
    const first = await connected();
    prefixFeed.apply({ stored: "namename", removed: "" });
    link.changed();
    await eventually("the change came", () => told(first).length === 2);
    expect(told(first)[1]).toMatchObject({ isWhole: false, stored: "namename" });
    first.socket.send("prefixes");
    await eventually("all came again", () => told(first).length === 3);
    expect(told(first)[2]).toMatchObject({ isWhole: true, stored: "namename" });
    first.socket.terminate();
    const second = await connected(2);
    expect(told(second)[0]).toMatchObject({ isWhole: true, stored: "namename" });
  });

  test("waits for a pool that is not there yet, or does not let it in yet", async () => {
    const [port = 0] = await takeFreePorts(1);
    const { events } = dial(`ws://127.0.0.1:${port}/internal/pools/local`);
    await eventually("a first attempt failed", () => events.includes("pool-lost"));
    let attempts = 0;
    pool = await startFakePool({ port, accepts: () => (attempts += 1) > 2 });
    await connected();
    expect(attempts).toBe(3);
  });

  test("gives up a pool that answers no ping, and dials again", async () => {
    pool = await startFakePool();
    dial(pool.url);
    const first = await connected();
    // A paused socket reads nothing: what a pool that hangs, or a cut cable, looks like.
    first.socket.pause();
    const second = await connected(2);
    expect(second.frames[0]).toEqual(HELLO);
  });

  test("does not dial again once it is closed", async () => {
    pool = await startFakePool();
    const { link } = dial(pool.url);
    const { socket } = await connected();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    link.close();
    expect(await closed).toBe(1001);
    expect(pool.connections).toHaveLength(1);
  });
});
