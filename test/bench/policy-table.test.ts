import { describe, expect, test } from "vitest";
import { CONTENDERS, OURS } from "../../bench/support/policy-contenders.ts";
import type { Contender, SeedOutcome, TenantCounts } from "../../bench/support/policy-run.ts";
import { keptRatio, outcomeOf } from "../../bench/support/policy-run.ts";
import { loadOf } from "../../bench/support/policy-scenarios.ts";
import { isBetter, leftOf, rowOf, sectionOf, summaryOf } from "../../bench/support/policy-table.ts";

const counts = (facts: Partial<TenantCounts> = {}): TenantCounts => ({
  offered: 10,
  refused: 0,
  judged: 10,
  good: 10,
  goodCostMs: 100,
  admittedCostMs: 100,
  inProfileCostMs: 100,
  ...facts,
});
const outcome = (goodCostRatio: number, tenants: readonly TenantCounts[]): SeedOutcome => ({
  tenants,
  goodCostRatio,
});

function contender(name: string): Contender {
  const found = CONTENDERS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`Expected ${name}`);
  return found;
}
const ROUND_ROBIN = contender("FIFO, round robin");
const SLUICE = contender(OURS);

describe("keptRatio()", () => {
  test("does not set off what one tenant got too much against what another did not get", () => {
    const generous = counts({ admittedCostMs: 900 });
    expect(keptRatio([generous, counts({ admittedCostMs: 40 })])).toBe(0.7);
    expect(keptRatio([generous, counts()])).toBe(1);
    expect(keptRatio([counts({ inProfileCostMs: 0, admittedCostMs: 0 })])).toBe(1);
  });

  test("is taken over seeds as over tenants", () => {
    const row = rowOf(ROUND_ROBIN, [
      outcome(1, [counts({ admittedCostMs: 900 })]),
      outcome(2, [counts({ admittedCostMs: 0 })]),
    ]);
    expect(row).toMatchObject({ acceptanceRatio: 0.5, goodCostRatio: 1.5 });
  });
});

test("who keeps 99.9 % of what is guaranteed comes first, whatever others are worth", () => {
  const rows = [
    rowOf(ROUND_ROBIN, [outcome(1.5, [counts({ admittedCostMs: 99.8 })])]),
    rowOf(ROUND_ROBIN, [outcome(1, [counts({ admittedCostMs: 99.9 })])]),
    rowOf(ROUND_ROBIN, [outcome(1.2, [counts()])]),
    rowOf(ROUND_ROBIN, [outcome(1.6, [counts({ admittedCostMs: 50 })])]),
  ];
  const ranked = rows.toSorted((a, b) => (isBetter(a, b) ? -1 : 1));
  expect(ranked.map(({ goodCostRatio }) => goodCostRatio)).toEqual([1.2, 1, 1.6, 1.5]);
});

test("the tables tell a tenant's part of what was offered, and mark who does not keep what is guaranteed", () => {
  const scenario = { ...loadOf(1), culprit: "chat" };
  const few = counts({ offered: 20, refused: 10, good: 5, admittedCostMs: 50 });
  const rows = [
    rowOf(SLUICE, [outcome(1.4, [few, counts(), counts({ good: 9 })])]),
    rowOf(ROUND_ROBIN, [outcome(1.1, [counts(), counts(), counts()])]),
  ];
  const lines = sectionOf(scenario, rows);
  // The better one by what is guaranteed stands above. The worst victim is bulk: chat makes the trouble.
  expect(lines.slice(-2)).toEqual([
    expect.stringMatching(/^\| FIFO, round robin \| 110\.0 .* \| 100\.00 \| 100\.00 \|/),
    expect.stringMatching(
      /^\| \*\*Sluice\*\* \| 140\.0 .* \| 83\.33 ✗ \| 80\.00 \| 50\.0 \/ 50\.0 \/ 25\.0 \| .* \| 90\.0 \|$/,
    ),
  ]);
  expect(summaryOf(new Map([[scenario, rows]])).at(-1)).toMatch(
    /\| 140\.0 \| 83\.33 ✗ \| FIFO, round robin: 110\.0 \| 100\.00 \| 30\.0 \[30\.0, 30\.0\] \|$/,
  );
  expect(leftOf([scenario]).at(-1)).toBe("- `load-1`: load 1×");
});

const guaranteed = (tenants: readonly TenantCounts[]) =>
  tenants.map(({ inProfileCostMs }) => inProfileCostMs);

function offeredIn(warmUpMs: number, measuredMs: number): number[] {
  const at = { seed: 1, length: { warmUpMs, measuredMs } };
  return outcomeOf(loadOf(1), ROUND_ROBIN, at).tenants.map(({ offered }) => offered);
}

describe("outcomeOf()", () => {
  const length = { warmUpMs: 200, measuredMs: 600 };

  test("counts every request of the time that counts once, and is the same again", () => {
    const made = outcomeOf(loadOf(2), SLUICE, { seed: 1, length });
    expect(outcomeOf(loadOf(2), SLUICE, { seed: 1, length })).toEqual(made);
    expect(made.tenants.map(({ offered }) => offered > 20)).toEqual([true, true, true]);
    for (const { offered, refused, judged, good, goodCostMs, admittedCostMs } of made.tenants) {
      expect(refused + judged).toBeLessThanOrEqual(offered);
      expect(good).toBeLessThanOrEqual(judged);
      expect(goodCostMs).toBeLessThanOrEqual(admittedCostMs);
    }
  });

  test("reckons what is guaranteed from what was asked for alone: alike whoever decides", () => {
    const of = (who: Contender) => outcomeOf(loadOf(2), who, { seed: 1, length }).tenants;
    const [all, few] = [of(ROUND_ROBIN), of(contender("saturation shed (llm-d)"))];
    expect(guaranteed(few)).toEqual(guaranteed(all));
    expect(few.map(({ refused, offered }) => refused > offered / 4)).toEqual([true, true, true]);
    // Of a pool that is asked for a quarter of what it has all is guaranteed, and all of it is kept.
    const light = outcomeOf(loadOf(0.25), ROUND_ROBIN, { seed: 1, length });
    expect(keptRatio(light.tenants)).toBe(1);
    for (const { inProfileCostMs, admittedCostMs } of light.tenants) {
      expect(inProfileCostMs).toBeCloseTo(admittedCostMs, 6);
    }
  });

  test("counts what arrived while it was measured, and nothing twice", () => {
    const [first, second, whole] = [offeredIn(0, 300), offeredIn(300, 300), offeredIn(0, 600)];
    expect(first.map((offered, tenant) => offered + (second[tenant] ?? 0))).toEqual(whole);
    expect(Math.min(...first, ...second)).toBeGreaterThan(0);
  });
});
