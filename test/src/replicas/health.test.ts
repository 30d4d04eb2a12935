import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { HEALTH_OPTIONS, ReplicaHealth } from "../../../src/replicas/health.ts";

const { ejectAfter, cooldownMs, cooldownMsMax, slowStartMs, stallWindowMs } = HEALTH_OPTIONS;

/** Fails as often as it takes; the dispatches are numbered from 1. */
function eject(health: ReplicaHealth, nowMs = 0): ReplicaHealth {
  for (let number = 1; number <= ejectAfter; number++) health.failed(number, nowMs, true);
  return health;
}

/** Sends the probe that is due, and lets it fail. Returns until when it is ejected then. */
function failProbe(health: ReplicaHealth, dispatchNumber: number): number {
  const probedAtMs = health.ejectedUntilMs ?? Number.NaN;
  health.dispatched(dispatchNumber, probedAtMs);
  health.failed(dispatchNumber, probedAtMs, true);
  return (health.ejectedUntilMs ?? Number.NaN) - probedAtMs;
}

describe("failures", () => {
  test("a few failures make a replica suspect, and it still gets requests", () => {
    const health = new ReplicaHealth();
    expect(health.statusAt(0)).toBe("healthy");
    health.failed(1, 0, true);
    health.failed(2, 0, true);
    expect(health.statusAt(0)).toBe("suspect");
    expect(health.canTake(0)).toBe(true);
  });

  test("as many failures in a row as are allowed eject it", () => {
    const health = eject(new ReplicaHealth());
    expect(health.statusAt(0)).toBe("ejected");
    expect(health.canTake(0)).toBe(false);
  });

  test("a success in between begins the count anew", () => {
    const health = new ReplicaHealth();
    for (let number = 1; number < ejectAfter; number++) health.failed(number, 0, true);
    health.succeeded(50, 0);
    expect(health.statusAt(0)).toBe("healthy");
    for (let number = 1; number < ejectAfter; number++) health.failed(number, 0, true);
    expect(health.statusAt(0)).toBe("suspect");
  });

  test("one that may not be ejected stays in use, and goes with the next failure once it may", () => {
    const health = new ReplicaHealth();
    for (let number = 1; number <= 10; number++) health.failed(number, 0, false);
    health.checkInvariants();
    expect(health.statusAt(0)).toBe("suspect");
    health.failed(11, 0, true);
    expect(health.statusAt(0)).toBe("ejected");
  });
});

describe("other options", () => {
  test("count from the next failure on, and eject nobody for what happened before", () => {
    const health = new ReplicaHealth({ ejectAfter: 10 });
    for (let number = 1; number <= 5; number++) health.failed(number, 0, true);
    health.configure({ ejectAfter: 2, cooldownMsMax: 1_000 });
    health.checkInvariants();
    expect(health.statusAt(0)).toBe("suspect");
    health.failed(6, 0, true);
    expect(health.ejectedUntilMs).toBe(1_000);
  });

  test("where nothing is said any more it is as usual again", () => {
    const health = new ReplicaHealth({ ejectAfter: 1 });
    health.configure({});
    health.failed(1, 0, true);
    expect(health.statusAt(0)).toBe("suspect");
  });
});

describe("stalls", () => {
  test("three different requests that stall within the window eject a replica", () => {
    const health = new ReplicaHealth();
    for (const number of [1, 2, 3]) health.stalled(number, 1000 * number, true);
    expect(health.statusAt(3000)).toBe("ejected");
  });

  test("one request that stalls again and again counts once", () => {
    const health = new ReplicaHealth();
    for (let nowMs = 0; nowMs < 10; nowMs++) health.stalled(1, nowMs, true);
    expect(health.statusAt(10)).toBe("suspect");
  });

  test("stalls further apart than the window are no trouble of the replica", () => {
    const health = new ReplicaHealth();
    for (const number of [1, 2, 3, 4]) health.stalled(number, number * stallWindowMs, true);
    expect(health.statusAt(4 * stallWindowMs)).toBe("suspect");
    expect(health.statusAt(5 * stallWindowMs + 1)).toBe("healthy");
  });

  test("a success does not outweigh other requests that stall", () => {
    const health = new ReplicaHealth();
    health.stalled(1, 0, true);
    health.stalled(2, 0, true);
    health.succeeded(9, 0);
    health.stalled(3, 0, true);
    expect(health.statusAt(0)).toBe("ejected");
  });
});

describe("ejection", () => {
  test("when its time is over, it is probed by one request at a time", () => {
    const health = eject(new ReplicaHealth());
    expect(health.statusAt(cooldownMs - 1)).toBe("ejected");
    expect(health.statusAt(cooldownMs)).toBe("probing");
    expect(health.canTake(cooldownMs)).toBe(true);
    health.dispatched(10, cooldownMs);
    expect(health.canTake(cooldownMs)).toBe(false);
    expect(() => health.dispatched(11, cooldownMs)).toThrow("one probe at a time");
  });

  test("a probe that proved nothing makes room for another", () => {
    const health = eject(new ReplicaHealth());
    health.dispatched(10, cooldownMs);
    health.released(10);
    expect(health.canTake(cooldownMs)).toBe(true);
  });

  test("what was sent before neither ends an ejection nor prolongs it", () => {
    const health = eject(new ReplicaHealth());
    health.succeeded(2, 1);
    health.failed(2, 1, true);
    health.stalled(2, 1, true);
    expect(health.ejectedUntilMs).toBe(cooldownMs);
    health.dispatched(10, cooldownMs);
    health.succeeded(2, cooldownMs);
    health.failed(2, cooldownMs, true);
    expect(health.statusAt(cooldownMs)).toBe("probing");
  });

  test("it lasts twice as long each time, up to its cap", () => {
    const health = eject(new ReplicaHealth());
    const lastedMs = Array.from({ length: 8 }, (_, index) => failProbe(health, 10 + index));
    expect(lastedMs.slice(0, 3)).toEqual([2 * cooldownMs, 4 * cooldownMs, 8 * cooldownMs]);
    expect(lastedMs.at(-1)).toBe(cooldownMsMax);
    for (let number = 100; number < 200; number++) failProbe(health, number);
    health.checkInvariants();
  });

  test("soon after a return it lasts as long as if there had been none, and long after it as at first", () => {
    for (const [wellMs, expectedMs] of [
      [cooldownMsMax, 2 * cooldownMs],
      [cooldownMsMax + 1, cooldownMs],
    ] as const) {
      const health = eject(new ReplicaHealth());
      health.dispatched(10, cooldownMs);
      health.succeeded(10, cooldownMs);
      const againAtMs = cooldownMs + wellMs;
      eject(health, againAtMs);
      expect(health.ejectedUntilMs).toBe(againAtMs + expectedMs);
    }
  });

  test("a probe that stalls has failed", () => {
    const health = eject(new ReplicaHealth());
    health.dispatched(10, cooldownMs);
    health.stalled(10, cooldownMs, true);
    expect(health.statusAt(cooldownMs)).toBe("ejected");
  });
});

describe("a replica that nobody could replace", () => {
  test("is probed at once when it is all that is left", () => {
    const health = eject(new ReplicaHealth());
    health.probeNow(1);
    expect(health.statusAt(1)).toBe("probing");
    health.probeNow(2);
    expect(health.ejectedUntilMs).toBe(1);
  });

  test("stays in use, suspect, when its probe fails", () => {
    const health = eject(new ReplicaHealth());
    health.dispatched(10, cooldownMs);
    health.failed(10, cooldownMs, false);
    expect(health.statusAt(cooldownMs)).toBe("suspect");
    expect(health.canTake(cooldownMs)).toBe(true);
  });
});

describe("slow start", () => {
  test("a replica that was never ejected has its full share", () => {
    expect(new ReplicaHealth().capacityRatio(0)).toBe(1);
  });

  test("after a probe that went well, its share grows to the full one", () => {
    const health = eject(new ReplicaHealth());
    expect(health.capacityRatio(0)).toBe(0.1);
    health.dispatched(10, cooldownMs);
    health.succeeded(10, cooldownMs);
    expect(health.statusAt(cooldownMs)).toBe("healthy");
    expect(health.capacityRatio(cooldownMs)).toBeCloseTo(0.1);
    expect(health.capacityRatio(cooldownMs + slowStartMs / 2)).toBeCloseTo(0.55);
    expect(health.capacityRatio(cooldownMs + slowStartMs)).toBe(1);
  });

  test("another process has failed nobody, but starts slowly", () => {
    const health = eject(new ReplicaHealth());
    health.restarted(7);
    expect(health.statusAt(7)).toBe("healthy");
    expect(health.capacityRatio(7)).toBeCloseTo(0.1);
  });
});

function copyOf(health: ReplicaHealth): ReplicaHealth {
  return new ReplicaHealth({}, copyState(health.state));
}

test("whatever happens, an ejected replica comes back once it works, and its state can be copied", () => {
  const happening = fc.record({
    kind: fc.constantFrom("dispatched", "failed", "stalled", "succeeded", "released", "restarted"),
    number: fc.integer({ min: 1, max: 6 }),
    afterMs: fc.nat(cooldownMs),
    mayEject: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 80 }), fc.nat(80), (happenings, copiedAt) => {
      const health = new ReplicaHealth();
      let revived = copyOf(health);
      let nowMs = 0;
      for (const [index, { kind, number, afterMs, mayEject }] of happenings.entries()) {
        nowMs += afterMs;
        for (const one of [health, revived]) {
          if (kind === "dispatched" && one.canTake(nowMs)) one.dispatched(number, nowMs);
          if (kind === "failed" || kind === "stalled") one[kind](number, nowMs, mayEject);
          if (kind === "succeeded") one.succeeded(number, nowMs);
          if (kind === "released") one.released(number);
          if (kind === "restarted") one.restarted(nowMs);
          one.checkInvariants();
        }
        if (index === copiedAt) revived = copyOf(health);
        expect(revived.statusAt(nowMs)).toBe(health.statusAt(nowMs));
        expect(revived.canTake(nowMs)).toBe(health.canTake(nowMs));
        expect(revived.capacityRatio(nowMs)).toBe(health.capacityRatio(nowMs));
      }
      if (health.state.probeNumber !== undefined) health.released(health.state.probeNumber);
      const laterMs = Math.max(nowMs, health.ejectedUntilMs ?? 0);
      expect(laterMs - nowMs).toBeLessThanOrEqual(cooldownMsMax);
      health.dispatched(1_000, laterMs);
      health.succeeded(1_000, laterMs);
      expect(health.isEjected).toBe(false);
    }),
  );
});
