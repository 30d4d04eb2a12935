import { describe, expect, test } from "vitest";
import type { ReplicaHello, ReplicaReport } from "../../src/protocol/engine-api.ts";
import { REPORT_COALESCE_MS, REPORT_INTERVAL_MS } from "../../src/protocol/engine-api.ts";
import { TINY } from "../../simulator/hardware-profile.ts";
import type { ReplicaLinkOptions } from "../../simulator/replica-link.ts";
import { ReplicaLink } from "../../simulator/replica-link.ts";
import type { ReplicaEvent } from "../../simulator/replica-request.ts";
import { World } from "../../simulator/world.ts";
import { tokenRange } from "../support/engine-builders.ts";

const DELAY_MS = 3;
const EVENTS_MAX = 100_000;

type Heard = { readonly atMs: number } & (
  | { readonly kind: "hello"; readonly hello: ReplicaHello }
  | { readonly kind: "report"; readonly report: ReplicaReport }
  | { readonly kind: "gone" }
  | { readonly kind: "event"; readonly event: ReplicaEvent }
);

function aLink(change: Partial<ReplicaLinkOptions> = {}) {
  const world = new World(1);
  const heard: Heard[] = [];
  const link = new ReplicaLink({
    world,
    delayMs: DELAY_MS,
    replica: { profile: TINY, endpointUrl: "http://replica.example", modelId: "model" },
    listener: {
      events: (_, events) => {
        for (const event of events) heard.push({ kind: "event", event, atMs: world.nowMs });
      },
      connected: (hello) => heard.push({ kind: "hello", hello, atMs: world.nowMs }),
      reported: (_, report) => heard.push({ kind: "report", report, atMs: world.nowMs }),
      disconnected: () => heard.push({ kind: "gone", atMs: world.nowMs }),
    },
    ...change,
  });
  const runUntil = (endAtMs: number) => world.runToEnd({ endAtMs, eventsMax: EVENTS_MAX });
  const reports = () => heard.flatMap((each) => (each.kind === "report" ? [each] : []));
  return { world, link, heard, reports, runUntil };
}

function aRequest(id: string, answerTokens = 100) {
  const answerTokenIds = tokenRange(answerTokens);
  return { id, tenant: "tenant", promptTokenIds: tokenRange(50), answerTokenIds };
}

describe("ReplicaLink", () => {
  test("a replica that dials in says hello, then reports on every heartbeat", () => {
    const { link, heard, reports, runUntil } = aLink();
    link.connect();
    runUntil(3 * REPORT_INTERVAL_MS);
    expect(heard[0]).toMatchObject({ kind: "hello", atMs: DELAY_MS });
    expect(reports().map(({ atMs }) => atMs - DELAY_MS)).toEqual([
      0,
      REPORT_INTERVAL_MS,
      2 * REPORT_INTERVAL_MS,
    ]);
    expect(reports().map(({ report }) => report.sequence)).toEqual([1, 2, 3]);
  });

  test("a poisonous request comes back as lost, and the replica does nothing for it", () => {
    const { link, heard, runUntil } = aLink();
    link.send({ ...aRequest("a"), isPoisonous: true });
    runUntil(1_000);
    const event = { kind: "lost", id: "a" } as const;
    expect(heard).toEqual([{ kind: "event", event, atMs: 2 * DELAY_MS }]);
    expect(link.replica.requests).toBe(0);
  });

  test("a replica at work reports its changes, no two within the time of coalescing", () => {
    const { world, link, reports, runUntil } = aLink();
    link.connect();
    world.after(250, () => link.send(aRequest("a")));
    runUntil(800);
    const instants = reports().map(({ atMs }) => atMs);
    const gaps = instants.slice(1).map((atMs, index) => atMs - (instants[index] ?? 0));
    expect(instants.length).toBeGreaterThan(5);
    expect(Math.min(...gaps)).toBeGreaterThan(REPORT_COALESCE_MS - 0.001);
  });

  test("tokens come after the delay of the way there and back", () => {
    const { link, heard, runUntil } = aLink({ delayMs: 1_000 });
    link.send(aRequest("a"));
    runUntil(2_000);
    expect(heard).toEqual([]);
    runUntil(10_000);
    expect(heard.filter(({ kind }) => kind === "event")).toHaveLength(101);
  });

  test("a request to a process that is not there comes back as lost", () => {
    const { link, heard, runUntil } = aLink();
    link.replica.die();
    link.send(aRequest("a"));
    runUntil(100);
    expect(heard).toMatchObject([{ event: { kind: "lost", id: "a" }, atMs: 2 * DELAY_MS }]);
  });

  test("a black hole swallows requests while its reports look well", () => {
    const { link, heard, reports, runUntil } = aLink();
    link.connect();
    link.setBlackHole(true);
    link.send(aRequest("a"));
    runUntil(2_000);
    expect(heard.some(({ kind }) => kind === "event")).toBe(false);
    expect(reports().length).toBeGreaterThan(3);
  });

  test("a mute or frozen replica stays connected, and its reports stop", () => {
    for (const silence of ["mute", "frozen"]) {
      const { link, heard, reports, runUntil } = aLink();
      link.connect();
      runUntil(100);
      if (silence === "mute") link.setMute(true);
      else link.replica.freeze();
      runUntil(5_000);
      expect(reports()).toHaveLength(1);
      expect(heard.some(({ kind }) => kind === "gone")).toBe(false);
      link.setMute(false);
      link.replica.thaw();
      runUntil(6_000);
      expect(reports().length).toBeGreaterThan(1);
    }
  });

  test("what was sent on a connection that broke is not heard on the next one", () => {
    const { world, link, heard, reports, runUntil } = aLink({ delayMs: 200 });
    link.connect();
    world.after(100, () => link.disconnect());
    world.after(150, () => link.connect());
    runUntil(400);
    expect(heard.map(({ kind }) => kind)).toEqual(["hello", "report"]);
    expect(reports()[0]?.report.sequence).toBe(1);
  });

  test("reports get lost, late and doubled as often as they are told to", () => {
    const { link, reports, runUntil } = aLink({
      reportFaults: { lostRatio: 0.3, lateRatio: 0.3, lateMsMax: 2_000, repeatedRatio: 0.2 },
    });
    link.connect();
    runUntil(500 * REPORT_INTERVAL_MS);
    const sequences = reports().map(({ report }) => report.sequence);
    const distinct = new Set(sequences).size;
    expect(distinct / 500).toBeCloseTo(0.7, 1);
    expect((sequences.length - distinct) / distinct).toBeCloseTo(0.2, 1);
    const isOutOfOrder = sequences.some(
      (sequence, index) => sequence < (sequences[index - 1] ?? 0),
    );
    expect(isOutOfOrder).toBe(true);
  });
});
