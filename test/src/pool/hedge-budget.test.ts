import { describe, expect, test } from "vitest";
import { DISPATCHES_PER_HEDGE, HedgeBudget } from "../../../src/pool/hedge-budget.ts";

function afterDispatches(budget: HedgeBudget, dispatches: number): HedgeBudget {
  for (let index = 0; index < dispatches; index += 1) budget.dispatched();
  return budget;
}

/** Spends as many hedges as there are. */
function spendAll(budget: HedgeBudget): number {
  let spent = 0;
  for (; budget.hasOne; spent += 1) budget.spend();
  return spent;
}

describe("HedgeBudget", () => {
  test("begins with one hedge and no second", () => {
    expect(spendAll(new HedgeBudget())).toBe(1);
  });

  test("gives one for fifty dispatches, and not for one fewer", () => {
    const budget = new HedgeBudget({ savedDispatches: 0 });
    expect(spendAll(afterDispatches(budget, DISPATCHES_PER_HEDGE - 1))).toBe(0);
    expect(spendAll(afterDispatches(budget, 1))).toBe(1);
  });

  test("saves eight at most", () => {
    const budget = afterDispatches(new HedgeBudget(), 100 * DISPATCHES_PER_HEDGE);
    budget.checkInvariants();
    expect(spendAll(budget)).toBe(8);
  });

  test("never gives more than one and two in a hundred, whoever asks when", () => {
    const budget = new HedgeBudget();
    let spent = 0;
    for (let dispatches = 1; dispatches <= 1_000; dispatches += 1) {
      budget.dispatched();
      if (dispatches % 7 < 3 && budget.hasOne) {
        budget.spend();
        spent += 1;
      }
      expect(spent).toBeLessThanOrEqual(1 + 0.02 * dispatches);
    }
    expect(spent).toBeGreaterThan(15);
  });

  test("does not let anybody spend what is not there", () => {
    expect(() => new HedgeBudget({ savedDispatches: 49 }).spend()).toThrow("paid");
  });
});
