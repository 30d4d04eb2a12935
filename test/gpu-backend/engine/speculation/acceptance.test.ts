import { describe, expect, test } from "vitest";
import { Acceptance, GUESS_KINDS } from "../../../../gpu-backend/engine/speculation/acceptance.ts";

describe("Acceptance", () => {
  test("a new request is believed as much as all others were", () => {
    const all = new Acceptance();
    const first = new Acceptance(all);
    for (let round = 0; round < 200; round++) first.record("short-match", 4, 0);
    expect(new Acceptance(all).ratioOf("short-match")).toBeLessThan(0.1);
    expect(new Acceptance(all).ratioOf("long-match")).toBeGreaterThan(0.5);
  });

  test("what a request shows itself soon counts more than all others", () => {
    const all = new Acceptance();
    for (let round = 0; round < 200; round++) new Acceptance(all).record("long-match", 4, 4);
    const own = new Acceptance(all);
    expect(own.ratioOf("long-match")).toBeGreaterThan(0.9);
    for (let round = 0; round < 8; round++) own.record("long-match", 4, 0);
    expect(own.ratioOf("long-match")).toBeLessThan(0.45);
  });

  test("guesses behind the first that fails say nothing", () => {
    const few = new Acceptance();
    const many = new Acceptance();
    few.record("draft-model", 2, 1);
    many.record("draft-model", 8, 1);
    expect(few.ratioOf("draft-model")).toBe(many.ratioOf("draft-model"));
  });

  test("a ratio is never so sure as to be 0 or 1", () => {
    for (const kind of GUESS_KINDS) {
      const never = new Acceptance();
      const always = new Acceptance();
      for (let round = 0; round < 1000; round++) {
        never.record(kind, 1, 0);
        always.record(kind, 1, 1);
      }
      expect(never.ratioOf(kind)).toBeGreaterThan(0);
      expect(always.ratioOf(kind)).toBeLessThan(1);
    }
  });
});
