import { expect, test } from "vitest";
import { createStepWatchMemory, StepWatch } from "../../gpu-backend/step-watch.ts";

test("a step that does not end is seen from another thread, from when it was first seen", () => {
  const memory = createStepWatchMemory();
  const engineSide = new StepWatch(memory);
  const mainSide = new StepWatch(memory);
  expect(mainSide.runningMs(1000)).toBe(0);
  engineSide.enter();
  expect(mainSide.runningMs(2000)).toBe(0);
  expect(mainSide.runningMs(2700)).toBe(700);
  engineSide.leave();
  expect(mainSide.runningMs(9000)).toBe(0);
});

test("many short steps never add up to a long one", () => {
  const memory = createStepWatchMemory();
  const engineSide = new StepWatch(memory);
  const mainSide = new StepWatch(memory);
  for (let step = 0; step < 5; step++) {
    engineSide.enter();
    expect(mainSide.runningMs(step * 1000)).toBe(0);
    engineSide.leave();
  }
});
