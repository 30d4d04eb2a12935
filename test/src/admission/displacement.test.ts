import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { UnstartedExcess } from "../../../src/admission/displacement.ts";
import { Displacement } from "../../../src/admission/displacement.ts";
import { copyState } from "../../../src/base/plain-state.ts";
import { LeaseId, ReplicaId, RequestId } from "../../../src/protocol/ids.ts";

function excess(name: string, replica = "r1"): UnstartedExcess {
  return {
    leaseId: LeaseId.parse(`lease-${name}`),
    requestId: RequestId.parse(name),
    replicaId: ReplicaId.parse(replica),
  };
}

const always = () => true;

describe("Displacement", () => {
  test("the newest dispatch without a token gives way", () => {
    const displacement = new Displacement();
    for (const name of ["a", "b", "c"]) displacement.dispatched(excess(name));
    displacement.left(excess("c").leaseId);
    expect(displacement.choose(always, 0)).toEqual(excess("b"));
  });

  test("nobody gives way where it would not help", () => {
    const displacement = new Displacement();
    for (const replica of ["r1", "r2", "r3"]) displacement.dispatched(excess(replica, replica));
    expect(displacement.choose(({ replicaId }) => replicaId === "r2", 0)).toEqual(
      excess("r2", "r2"),
    );
    expect(displacement.choose(() => false, 1_000)).toBeUndefined();
  });

  test("a replica gives up one in a tenth of a second, others in the meantime", () => {
    const displacement = new Displacement();
    for (const name of ["a", "b", "c"]) displacement.dispatched(excess(name));
    displacement.dispatched(excess("d", "r2"));
    expect(displacement.choose(always, 1_000)?.requestId).toBe("d");
    expect(displacement.choose(always, 1_000)?.requestId).toBe("c");
    expect(displacement.choose(always, 1_099)).toBeUndefined();
    expect(displacement.choose(always, 1_100)?.requestId).toBe("b");
  });

  test("a request that was displaced once stays where it goes next", () => {
    const displacement = new Displacement();
    displacement.dispatched(excess("a"));
    displacement.choose(always, 0);
    const again = { ...excess("a", "r2"), leaseId: LeaseId.parse("lease-again") };
    displacement.dispatched(again);
    expect(displacement.choose(always, 60_000)).toBeUndefined();
  });

  test("a search asks of the newest of a few replicas", () => {
    const displacement = new Displacement({ checksMax: 3 });
    for (let index = 0; index < 10; index++) {
      displacement.dispatched(excess(`old-${index}`, `r${index}`));
    }
    displacement.dispatched(excess("new", "r0"));
    const asked: string[] = [];
    displacement.choose(({ requestId }) => {
      asked.push(requestId);
      return false;
    }, 0);
    expect(asked).toEqual(["new", "old-9", "old-8"]);
  });

  test("of displaced requests only the latest are remembered", () => {
    const displacement = new Displacement({ displacedMax: 2, intervalMs: 0 });
    for (const name of ["a", "b", "c"]) {
      displacement.dispatched(excess(name));
      displacement.choose(always, 0);
      displacement.checkInvariants();
    }
    expect([...displacement.state.displaced.keys()]).toEqual(["b", "c"]);
  });

  test("a replica that is gone leaves nothing behind", () => {
    const displacement = new Displacement();
    for (const name of ["a", "b"]) displacement.dispatched(excess(name));
    displacement.choose(always, 0);
    displacement.left(excess("a").leaseId);
    displacement.removeReplica(ReplicaId.parse("r1"));
    const { unstarted, replicas, lastAtMs } = displacement.state;
    expect([unstarted.size, replicas.size, lastAtMs.size]).toEqual([0, 0, 0]);
  });

  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom("dispatch", "dispatch", "leave", "choose", "copy"),
      request: fc.nat(6),
      replica: fc.nat(2),
      gapMs: fc.nat(80),
    }),
    { maxLength: 120, size: "max" },
  );

  test("nobody is displaced twice, nor with a token, nor faster than a replica may", () => {
    fc.assert(
      fc.property(steps, (sequence) => {
        let displacement = new Displacement();
        const alive = new Map<string, UnstartedExcess>();
        const displaced: { readonly excess: UnstartedExcess; readonly atMs: number }[] = [];
        let nowMs = 0;
        for (const [index, { kind, request, replica, gapMs }] of sequence.entries()) {
          nowMs += gapMs;
          const leaseId = LeaseId.parse(`lease-${index}`);
          const one = { ...excess(`q${request}`, `r${replica}`), leaseId };
          const [oldest] = alive.values();
          const chosen = kind === "choose" ? displacement.choose(always, nowMs) : undefined;
          if (kind === "dispatch") {
            displacement.dispatched(one);
            alive.set(leaseId, one);
          } else if (kind === "leave" && oldest !== undefined) {
            displacement.left(oldest.leaseId);
            alive.delete(oldest.leaseId);
          } else if (kind === "copy") {
            displacement = new Displacement({}, copyState(displacement.state));
          }
          displacement.checkInvariants();
          if (chosen === undefined) continue;
          expect(alive.get(chosen.leaseId)).toEqual(chosen);
          for (const earlier of displaced) {
            expect(earlier.excess.requestId).not.toBe(chosen.requestId);
            const isSameReplica = earlier.excess.replicaId === chosen.replicaId;
            expect(isSameReplica ? nowMs - earlier.atMs : Infinity).toBeGreaterThanOrEqual(100);
          }
          displaced.push({ excess: chosen, atMs: nowMs });
          alive.delete(chosen.leaseId);
        }
      }),
    );
  });
});
