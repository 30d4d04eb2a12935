import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { SpeedFactor } from "../../../src/replicas/speed-factor.ts";

/** Learns from requests that take `slowdown` times 100 ms each. */
function observe(speed: SpeedFactor, slowdown: number, completions: number): void {
  for (let count = 0; count < completions; count++) {
    const speedRatio = speed.ratio;
    speed.learn({ predictedMs: 100 * speedRatio, actualMs: 100 * slowdown, speedRatio });
  }
}

describe("SpeedFactor", () => {
  test("believes the coefficients until it is told otherwise", () => {
    expect(new SpeedFactor().ratio).toBe(1);
  });

  test("a replica that slows down to a half is followed within a few completions, and back", () => {
    const speed = new SpeedFactor();
    observe(speed, 2, 6);
    expect(speed.ratio).toBeGreaterThan(1.8);
    observe(speed, 1, 6);
    expect(speed.ratio).toBeLessThan(1.1);
  });

  test("predictions that were made before it moved do not move it twice", () => {
    const speed = new SpeedFactor();
    for (let count = 0; count < 50; count++) {
      speed.learn({ predictedMs: 100, actualMs: 200, speedRatio: 1 });
    }
    expect(speed.ratio).toBeCloseTo(2);
  });

  test("one completion that took for ever says little", () => {
    const speed = new SpeedFactor();
    observe(speed, 1e9, 1);
    expect(speed.ratio).toBeLessThan(2);
  });

  test("durations that no clock can have measured say nothing", () => {
    const speed = new SpeedFactor();
    for (const actualMs of [0, -5, Number.NaN, Infinity]) {
      speed.learn({ predictedMs: 100, actualMs, speedRatio: 1 });
    }
    speed.learn({ predictedMs: 0, actualMs: 100, speedRatio: 1 });
    expect(speed.ratio).toBe(1);
  });

  test("it stays within its bound, and comes back from it", () => {
    const speed = new SpeedFactor();
    observe(speed, 1e30, 200);
    expect(speed.ratio).toBeCloseTo(1_000);
    observe(speed, 1, 60);
    expect(speed.ratio).toBeCloseTo(1, 1);
  });

  test("a copy of its state goes on as it does", () => {
    const random = seededRandom(5);
    const speed = new SpeedFactor();
    observe(speed, 3, 2);
    const revived = new SpeedFactor(copyState(speed.state));
    for (let count = 0; count < 20; count++) {
      const actualMs = 50 + 200 * random();
      for (const one of [speed, revived]) one.learn({ predictedMs: 100, actualMs, speedRatio: 1 });
      expect(revived.ratio).toBe(speed.ratio);
    }
  });
});
