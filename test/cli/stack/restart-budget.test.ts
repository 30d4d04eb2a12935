import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  RESTART_WINDOW_MS,
  RestartBudget,
  RESTARTS_MAX,
} from "../../../cli/stack/restart-budget.ts";

describe("RestartBudget", () => {
  test("each restart within the window waits twice as long as the one before", () => {
    const budget = new RestartBudget();
    expect([budget.take(0), budget.take(1), budget.take(2), budget.take(3)]).toEqual([
      { kind: "restart", attempt: 1, delayMs: 500 },
      { kind: "restart", attempt: 2, delayMs: 1000 },
      { kind: "restart", attempt: 3, delayMs: 2000 },
      { kind: "give-up" },
    ]);
  });

  test("a restart counts until its window is over, and not an instant longer", () => {
    const budget = new RestartBudget();
    for (let index = 0; index < RESTARTS_MAX; index += 1) budget.take(index);
    expect(budget.take(RESTART_WINDOW_MS - 1)).toEqual({ kind: "give-up" });
    expect(budget.take(RESTART_WINDOW_MS)).toEqual({
      kind: "restart",
      attempt: RESTARTS_MAX,
      delayMs: 2000,
    });
  });

  test("a part that dies rarely is restarted for ever", () => {
    const budget = new RestartBudget();
    const verdicts = Array.from({ length: 50 }, (_, index) => budget.take(index * 60_000));
    expect(verdicts.every((verdict) => verdict.kind === "restart")).toBe(true);
  });

  test("no window ever holds more restarts than the limit", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 60 }), (gapsMs) => {
        const budget = new RestartBudget();
        let nowMs = 0;
        const grantedAtMs: number[] = [];
        for (const gapMs of gapsMs) {
          nowMs += gapMs;
          if (budget.take(nowMs).kind === "restart") grantedAtMs.push(nowMs);
        }
        for (const startMs of grantedAtMs) {
          const inWindow = grantedAtMs.filter(
            (atMs) => atMs >= startMs && atMs - startMs < RESTART_WINDOW_MS,
          );
          expect(inWindow.length).toBeLessThanOrEqual(RESTARTS_MAX);
        }
      }),
    );
  });
});
