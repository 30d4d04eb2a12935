import { describe, expect, test } from "vitest";
import {
  DispatchTracker,
  parseDispatchMark,
} from "../../../gpu-backend/engine/dispatch-tracker.ts";

describe("DispatchTracker", () => {
  test("nothing has arrived at first", () => {
    expect(new DispatchTracker().last).toBeUndefined();
  });

  test("the highest number of an epoch counts, in whatever order they arrive", () => {
    const tracker = new DispatchTracker();
    for (const number of [2, 5, 3]) tracker.note({ epoch: "a", number });
    expect(tracker.last).toEqual({ epoch: "a", number: 5 });
  });

  test("a new epoch begins from its own first number", () => {
    const tracker = new DispatchTracker();
    tracker.note({ epoch: "a", number: 90 });
    tracker.note({ epoch: "b", number: 1 });
    expect(tracker.last).toEqual({ epoch: "b", number: 1 });
  });

  test("a straggler of an old epoch does not bring that epoch back", () => {
    const tracker = new DispatchTracker();
    tracker.note({ epoch: "a", number: 1 });
    tracker.note({ epoch: "b", number: 1 });
    tracker.note({ epoch: "a", number: 2 });
    tracker.note({ epoch: "b", number: 2 });
    expect(tracker.last).toEqual({ epoch: "b", number: 2 });
  });

  test("of the old epochs the last eight are remembered", () => {
    const tracker = new DispatchTracker();
    for (let epoch = 0; epoch <= 9; epoch++) tracker.note({ epoch: `${epoch}`, number: 1 });
    tracker.note({ epoch: "1", number: 7 });
    expect(tracker.last).toEqual({ epoch: "9", number: 1 });
    tracker.note({ epoch: "0", number: 7 });
    expect(tracker.last).toEqual({ epoch: "0", number: 7 });
  });
});

describe("parseDispatchMark", () => {
  test("the number is what follows the last dot", () => {
    expect(parseDispatchMark("2026.life-3.17")).toEqual({ epoch: "2026.life-3", number: 17 });
  });

  test.each(["", "17", ".17", "a.", "a.0", "a.-1", "a.1.5x", "a.1e3", `${"e".repeat(65)}.1`])(
    "'%s' is no mark",
    (text) => {
      expect(parseDispatchMark(text)).toBeUndefined();
    },
  );
});
