import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { WaitingRequest } from "../../../src/admission/waiting-request.ts";
import { WaitingRoom } from "../../../src/admission/waiting-room.ts";
import { copyState } from "../../../src/base/plain-state.ts";
import { waiting } from "./waiting.ts";

const LIMITS = { requestsMax: 4, tenantRequestsMax: 3 };

/** A room with these excess requests, each `tenant:deadline`. */
function roomWith(...excess: string[]): WaitingRoom {
  const room = new WaitingRoom(LIMITS);
  for (const name of excess) {
    const [tenantId = "", deadlineAtMs = ""] = name.split(":");
    room.add(waiting(name, { tenantId, deadlineAtMs: Number(deadlineAtMs), isInProfile: false }));
  }
  return room;
}

const FULL = { kind: "full" };

describe("WaitingRoom", () => {
  test("there is room until the bound, of all and of one tenant", () => {
    const room = roomWith("a:1", "a:2", "a:3");
    const other = { tenantId: "b", isInProfile: false };
    expect(room.roomFor(waiting("x", { isInProfile: false }))).toEqual(FULL);
    expect(room.roomFor(waiting("x", other))).toEqual({ kind: "free" });
    room.add(waiting("x", { tenantId: "b" }));
    expect(room.roomFor(waiting("y", { isInProfile: false }))).toEqual(FULL);
    expect(() => room.add(waiting("y", other))).toThrow("there is room for a request that waits");
    room.checkInvariants();
  });

  test("one in profile takes the place of the tenant's that has most, of which it has most time left", () => {
    const room = roomWith("a:9", "b:5", "b:7", "b:6");
    expect(room.roomFor(waiting("x", { tenantId: "c" }))).toEqual({
      kind: "displace",
      requestId: "b:7",
    });
    expect(room.worstExcess).toBe("b:7");
  });

  test("a smaller bound than its own is kept by the same rule, and a larger one is none", () => {
    const room = roomWith("a:1", "a:2");
    const other = { tenantId: "b", isInProfile: false };
    expect(room.roomFor(waiting("x", other), 3)).toEqual({ kind: "free" });
    expect(room.roomFor(waiting("x", other), 2)).toEqual({ kind: "displace", requestId: "a:2" });
    expect(room.roomFor(waiting("x", { isInProfile: false }), 2)).toEqual(FULL);
    expect(room.roomFor(waiting("x", { tenantId: "c" }), 1).kind).toBe("displace");
    expect(
      roomWith("a:1", "a:2", "b:1", "b:2").roomFor(waiting("x", { ...other, tenantId: "c" }), 9)
        .kind,
    ).toBe("displace");
  });

  test("a tenant with its fill makes room for its own in profile by its own excess", () => {
    const room = roomWith("a:1", "a:2", "a:3", "b:9");
    expect(room.roomFor(waiting("x"))).toEqual({ kind: "displace", requestId: "a:3" });
  });

  test("nobody in profile is displaced", () => {
    const room = new WaitingRoom(LIMITS);
    for (const name of ["a", "b", "c", "d"]) room.add(waiting(name, { tenantId: name }));
    expect(room.roomFor(waiting("x", { tenantId: "e" }))).toEqual(FULL);
    expect(room.worstExcess).toBeUndefined();
  });

  test("excess takes the place of a tenant's that has more for its weight, and of no other", () => {
    const room = roomWith("a:1", "a:2", "a:3", "b:1");
    const other = { tenantId: "c", isInProfile: false };
    expect(room.roomFor(waiting("x", other))).toEqual({ kind: "displace", requestId: "a:3" });
    expect(room.roomFor(waiting("x", { ...other, tenantId: "b" })).kind).toBe("displace");
    expect(room.roomFor(waiting("x", { ...other, weight: 0.25 }))).toEqual(FULL);
  });

  test("who leaves makes room, and no trace of it is left", () => {
    const room = roomWith("a:1", "a:2", "a:3", "b:4");
    for (const [tenantId, deadlineAtMs] of [
      ["a", 1],
      ["a", 3],
      ["b", 4],
      ["a", 2],
    ] as const) {
      room.remove(
        waiting(`${tenantId}:${deadlineAtMs}`, { tenantId, deadlineAtMs, isInProfile: false }),
      );
      room.checkInvariants();
    }
    const { excess, ...counts } = room.state;
    expect(counts).toEqual({ size: 0, sizes: new Map() });
    expect([excess.tenants.entries, excess.lanes]).toEqual([[], new Map()]);
  });

  const arrivals = fc.array(
    fc.record({
      tenantId: fc.constantFrom("a", "b", "c"),
      isInProfile: fc.boolean(),
      deadlineAtMs: fc.nat(100),
      leaves: fc.integer({ min: 0, max: 7 }),
    }),
    { maxLength: 80, size: "max" },
  );

  test("the worst is of the tenant with most excess and has its latest deadline, in any copy too", () => {
    fc.assert(
      fc.property(arrivals, (sequence) => {
        let room = new WaitingRoom({ requestsMax: 12, tenantRequestsMax: 8 });
        const inRoom = new Map<string, WaitingRequest>();
        for (const [index, { leaves, ...arrival }] of sequence.entries()) {
          const request = waiting(`r${index}`, arrival);
          const verdict = room.roomFor(request);
          const victim = verdict.kind === "displace" ? verdict.requestId : undefined;
          const displaced = victim === undefined ? undefined : inRoom.get(victim);
          expect(displaced?.isInProfile ?? false).toBe(false);
          expect(displaced?.requestId).toBe(victim);
          if (displaced !== undefined) {
            room.remove(displaced);
            inRoom.delete(displaced.requestId);
          }
          if (verdict.kind !== "full") {
            room.add(request);
            inRoom.set(request.requestId, request);
          }
          const leaver = [...inRoom.values()][leaves];
          if (leaver !== undefined) {
            room.remove(leaver);
            inRoom.delete(leaver.requestId);
          }
          room.checkInvariants();
          expect(room.size).toBe(inRoom.size);
          room = new WaitingRoom({ requestsMax: 12, tenantRequestsMax: 8 }, copyState(room.state));
          const excess = [...inRoom.values()].filter((one) => !one.isInProfile);
          const worst = excess.find(({ requestId }) => requestId === room.worstExcess);
          expect(worst === undefined).toBe(excess.length === 0);
          if (worst === undefined) continue;
          const sizeOf = (name: string) => excess.filter((one) => one.tenantId === name).length;
          expect(sizeOf(worst.tenantId)).toBe(Math.max(...["a", "b", "c"].map(sizeOf)));
          for (const one of excess) {
            if (one.tenantId !== worst.tenantId) continue;
            expect(one.deadlineAtMs).toBeLessThanOrEqual(worst.deadlineAtMs);
          }
        }
      }),
    );
  });
});
