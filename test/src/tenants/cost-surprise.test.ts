import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { CostSurprise } from "../../../src/tenants/cost-surprise.ts";

/** Lets requests end whose costs were foreseen in the mean, and then some that were not. */
function live(surprise: CostSurprise, deltas: readonly number[], startAtMs = 0): number {
  for (const [index, deltaMs] of deltas.entries()) surprise.add(deltaMs, startAtMs + 50 * index);
  return startAtMs + 50 * deltas.length;
}

/** What heavy-tailed costs of mean 100 come to beyond their mean. */
function unbiased(count: number, seed: number): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => (random() < 0.9 ? 50 : 550) - 100);
}

describe("what a tenant's requests cost", () => {
  test("hardly ever is a surprise where it was right in the mean, whatever its spread", () => {
    let judged = 0;
    let surprised = 0;
    for (let seed = 1; seed <= 20; seed += 1) {
      const surprise = new CostSurprise();
      for (const [index, deltaMs] of unbiased(400, seed).entries()) {
        surprise.add(deltaMs, 50 * index);
        judged += 1;
        if (surprise.judge(50 * index)) surprised += 1;
        surprise.checkInvariants();
      }
    }
    expect(surprised / judged).toBeLessThan(0.02);
  });

  test("is one once many cost more, also behind many that cost less", () => {
    const surprise = new CostSurprise();
    const nowMs = live(
      surprise,
      Array.from({ length: 100 }, () => -20),
    );
    expect(surprise.judge(nowMs)).toBe(false);
    expect(surprise.judge(live(surprise, Array<number>(40).fill(60), nowMs))).toBe(true);
    expect(surprise.isSurprised).toBe(true);
  });

  test("is none for one request, however much it costs", () => {
    const surprise = new CostSurprise();
    surprise.add(1_000_000, 0);
    expect(surprise.judge(0)).toBe(false);
  });

  test("is none where it is little beside what was foreseen, however certain", () => {
    const [little, much] = [new CostSurprise(), new CostSurprise()];
    for (let index = 0; index < 100; index += 1) {
      for (const surprise of [little, much]) surprise.add(5, 0);
      little.ended(100, 0);
      much.ended(15, 0);
    }
    expect(little.judge(0)).toBe(false);
    expect(much.judge(0)).toBe(true);
  });

  test("stays one until it is well foreseen again", () => {
    const surprise = new CostSurprise();
    let nowMs = live(surprise, Array<number>(30).fill(60));
    surprise.judge(nowMs);
    nowMs = live(surprise, [-60, -60], nowMs);
    expect(surprise.judge(nowMs)).toBe(true);
    nowMs = live(surprise, [-200, -200], nowMs);
    expect(surprise.judge(nowMs)).toBe(false);
    expect(surprise.isSurprised).toBe(true);
    nowMs = live(surprise, [-400, -400], nowMs);
    surprise.judge(nowMs);
    expect(surprise.isSurprised).toBe(false);
  });

  test("fades against what comes later", () => {
    const surprise = new CostSurprise();
    const nowMs = live(surprise, Array<number>(20).fill(60));
    surprise.add(-1, nowMs + 60_000);
    surprise.add(5, nowMs + 60_000);
    expect(surprise.judge(nowMs + 60_000)).toBe(false);
  });
});
