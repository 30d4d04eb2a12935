import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { seededRandom } from "../../../src/base/random.ts";
import {
  ClaimedSpeed,
  claimedSpeedRatio,
  claimsBelieved,
} from "../../../src/replicas/claimed-speed.ts";

const EVERY_MS = 200;

/** Answers whose paces are so many times what was claimed, five a second; returns the instant behind the last. */
function observe(speed: ClaimedSpeed, ratio: number, answers: number, startAtMs = 0): number {
  for (let index = 0; index < answers; index += 1) {
    speed.learn({ claimedMs: [40, 40], actualMs: 40 * ratio }, startAtMs + EVERY_MS * index);
  }
  return startAtMs + EVERY_MS * answers;
}

const ratioOf = ({ state }: ClaimedSpeed) => claimedSpeedRatio(state);

describe("ClaimedSpeed", () => {
  test("believes a replica exactly that is off by less than a quarter, now and then by more", () => {
    const random = seededRandom(3);
    const speed = new ClaimedSpeed();
    for (let index = 0; index < 5_000; index += 1) {
      const off = 0.85 + 0.3 * random() + (random() < 0.01 ? 5 : 0);
      speed.learn({ claimedMs: [40, 40], actualMs: 40 * off }, EVERY_MS * index);
      expect(ratioOf(speed)).toBe(1);
    }
  });

  test.each([0.25, 0.5, 0.6, 1.4, 2, 4])(
    "corrects one that goes on being wrong within five seconds: %f times",
    (ratio) => {
      const speed = new ClaimedSpeed();
      observe(speed, ratio, 25);
      expect(ratioOf(speed) / ratio).toBeGreaterThan(0.92);
      expect(ratioOf(speed) / ratio).toBeLessThan(1.08);
    },
  );

  test("needs more to believe that one is faster than it tells than that it is slower", () => {
    const [faster, slower] = [new ClaimedSpeed(), new ClaimedSpeed()];
    observe(faster, 1 / 1.4, 100);
    observe(slower, 1.4, 100);
    expect(ratioOf(faster)).toBe(1);
    expect(ratioOf(slower)).toBeCloseTo(1.4);
  });

  test("lets a replica correct itself for three seconds first", () => {
    const speed = new ClaimedSpeed();
    let nowMs = 0;
    for (let round = 0; round < 5; round += 1) {
      nowMs = observe(speed, 2, 8, nowMs);
      expect(Math.exp(speed.state.logRatio)).toBeGreaterThan(1.6);
      expect(ratioOf(speed)).toBe(1);
      nowMs = observe(speed, 1, 15, nowMs);
      expect(ratioOf(speed)).toBe(1);
    }
    observe(speed, 2, 20, nowMs);
    expect(ratioOf(speed)).toBeGreaterThan(1.8);
  });

  test("believes one again that has come to tell what is so", () => {
    const speed = new ClaimedSpeed();
    const afterMs = observe(speed, 2, 50);
    observe(speed, 1, 25, afterMs);
    expect(ratioOf(speed)).toBe(1);
  });

  test("holds nothing against what lies between what was claimed at the beginning and at the end", () => {
    const speed = new ClaimedSpeed();
    for (let index = 0; index < 100; index += 1) {
      for (const actualMs of [20, 33, 60]) {
        speed.learn({ claimedMs: [60, 20], actualMs }, EVERY_MS * index);
      }
    }
    expect(speed.state).toEqual(claimsBelieved());
  });

  test("one answer that took for ever says little, and none more than its bound", () => {
    const speed = new ClaimedSpeed();
    observe(speed, 1e9, 1);
    expect(Math.exp(speed.state.logRatio)).toBeLessThan(1.2);
    observe(speed, 1e9, 500);
    expect(ratioOf(speed)).toBeCloseTo(64);
    observe(speed, 1e-9, 500, 500 * EVERY_MS);
    expect(ratioOf(speed)).toBeCloseTo(1 / 64);
  });

  test("what no clock can have measured says nothing", () => {
    const speed = new ClaimedSpeed();
    for (const actualMs of [0, -5, Number.NaN, Infinity]) {
      speed.learn({ claimedMs: [40, 40], actualMs }, 0);
    }
    for (const claimed of [0, -1, Number.NaN]) {
      speed.learn({ claimedMs: [40, claimed], actualMs: 40 }, 0);
    }
    expect(speed.state).toEqual(claimsBelieved());
  });

  test("another process is believed", () => {
    const speed = new ClaimedSpeed();
    observe(speed, 3, 50);
    speed.forget();
    expect(speed.state).toEqual(claimsBelieved());
  });

  test("a copy of its state goes on as it does", () => {
    const random = seededRandom(5);
    const speed = new ClaimedSpeed();
    observe(speed, 3, 10);
    const revived = new ClaimedSpeed(copyState(speed.state));
    for (let index = 10; index < 60; index += 1) {
      const actualMs = 60 + 100 * random();
      for (const one of [speed, revived]) {
        one.learn({ claimedMs: [40, 50], actualMs }, EVERY_MS * index);
      }
      expect(revived.state).toEqual(speed.state);
    }
  });
});
