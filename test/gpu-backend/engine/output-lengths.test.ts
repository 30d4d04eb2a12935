import { describe, expect, test } from "vitest";
import { OutputLengths } from "../../../gpu-backend/engine/output-lengths.ts";

const progress = (tenant: string, outputTokens = 0, outputTokensMax = 1000) => ({
  tenant,
  outputTokens,
  outputTokensMax,
});

function recordAll(lengths: OutputLengths, tenant: string, outputs: readonly number[]): void {
  for (const output of outputs) lengths.record(tenant, output);
}

describe("OutputLengths", () => {
  test("expects the limit until there is something to go by", () => {
    const lengths = new OutputLengths();
    recordAll(lengths, "a", [5, 5, 5, 5, 5, 5, 5]);
    expect(lengths.expectedTokens(progress("a"))).toBe(1000);
    lengths.record("a", 5);
    expect(lengths.expectedTokens(progress("a"))).toBe(5);
  });

  test("expects half of the outputs to be longer, and none beyond its limit", () => {
    const lengths = new OutputLengths();
    recordAll(lengths, "a", [10, 20, 30, 40, 50, 60, 70, 80, 90]);
    expect(lengths.expectedTokens(progress("a"))).toBe(50);
    expect(lengths.expectedTokens(progress("a", 0, 35))).toBe(35);
  });

  test("an output that goes on is compared with those that went on as well", () => {
    const lengths = new OutputLengths();
    recordAll(lengths, "a", [10, 10, 10, 10, 10, 10, 10, 10, 60, 60, 60, 60, 60, 60, 60, 60]);
    expect(lengths.expectedTokens(progress("a", 11))).toBe(60);
    expect(lengths.expectedTokens(progress("a", 60))).toBe(1000);
  });

  test("a tenant without a history of its own is expected to be like all", () => {
    const lengths = new OutputLengths();
    recordAll(lengths, "long", Array(8).fill(100));
    recordAll(lengths, "short", Array(20).fill(10));
    expect(lengths.expectedTokens(progress("long"))).toBe(100);
    expect(lengths.expectedTokens(progress("new"))).toBe(10);
  });

  test("forgets old outputs, and the tenant that was silent for the longest", () => {
    const lengths = new OutputLengths();
    recordAll(lengths, "a", Array(300).fill(10));
    recordAll(lengths, "a", Array(300).fill(20));
    expect(lengths.expectedTokens(progress("a"))).toBe(20);
    for (let tenant = 0; tenant < 255; tenant++) lengths.record(`tenant ${tenant}`, 50);
    expect(lengths.expectedTokens(progress("a"))).toBe(20);
    // Heard of again, it is not the one longest silent any more.
    lengths.record("a", 20);
    lengths.record("one more", 50);
    expect(lengths.expectedTokens(progress("a"))).toBe(20);
    for (let tenant = 0; tenant < 256; tenant++) lengths.record(`other ${tenant}`, 50);
    expect(lengths.expectedTokens(progress("a"))).toBe(50);
  });
});
