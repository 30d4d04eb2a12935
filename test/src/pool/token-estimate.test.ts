import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";

/** Teaches an estimate prompts of 1,000 bytes that have exactly so many bytes a token. */
function taught(bytesPerToken: number, samples = 100): TokenEstimate {
  const estimate = new TokenEstimate();
  for (let index = 0; index < samples; index += 1) {
    const sample = { promptBytes: 1000, promptTokens: 16 + 1000 / bytesPerToken };
    estimate.learn(sample, index * 1000);
  }
  return estimate;
}

describe("TokenEstimate", () => {
  test("an untaught estimate takes text for denser than English is", () => {
    const tokensOfEnglish = 4000 / 4;
    expect(new TokenEstimate().tokensOf(4000)).toBeGreaterThan(tokensOfEnglish);
  });

  test("an empty prompt still has its template's tokens", () => {
    expect(new TokenEstimate().tokensOf(0)).toBeGreaterThan(0);
  });

  test("an estimate comes to what the engine counts", () => {
    expect(taught(5).tokensOf(10_000)).toBeGreaterThanOrEqual(2000);
    expect(taught(5).tokensOf(10_000)).toBeLessThan(2300);
    expect(taught(2).tokensOf(10_000)).toBeGreaterThan(4900);
  });

  test("prompts that vary are estimated above their mean", () => {
    const estimate = new TokenEstimate();
    for (let index = 0; index < 200; index += 1) {
      const bytesPerToken = index % 2 === 0 ? 2 : 6;
      estimate.learn({ promptBytes: 1000, promptTokens: 16 + 1000 / bytesPerToken }, index * 1000);
    }
    const meanTokens = (10_000 / 2 + 10_000 / 6) / 2;
    expect(estimate.tokensOf(10_000)).toBeGreaterThan(meanTokens * 1.2);
  });

  test("odd prompts raise what is expected, but not what a prompt has at the least", () => {
    const untaught = new TokenEstimate();
    const dense = taught(1);
    expect(dense.tokensOf(10_000)).toBeGreaterThan(9000);
    expect(dense.tokensAtLeast(10_000)).toBe(untaught.tokensAtLeast(10_000));
    expect(taught(8).tokensAtLeast(10_000)).toBeLessThan(untaught.tokensAtLeast(10_000));
  });

  test("a long prompt teaches more than a short one", () => {
    const estimate = new TokenEstimate();
    estimate.learn({ promptBytes: 100_000, promptTokens: 25_016 }, 0);
    estimate.learn({ promptBytes: 10, promptTokens: 26 }, 0);
    expect(estimate.tokensOf(100_000)).toBeLessThan(27_000);
  });

  test("a count that is all template teaches nothing", () => {
    const estimate = new TokenEstimate();
    const before = estimate.tokensOf(10_000);
    estimate.learn({ promptBytes: 0, promptTokens: 50 }, 0);
    estimate.learn({ promptBytes: 50, promptTokens: 16 }, 0);
    estimate.learn({ promptBytes: 50, promptTokens: 0 }, 0);
    expect(estimate.tokensOf(10_000)).toBe(before);
  });

  test("an estimate revived from a copy of its state learns on the same, and by itself", () => {
    const estimate = taught(3, 10);
    const revived = new TokenEstimate(copyState(estimate.state));
    revived.learn({ promptBytes: 5_000, promptTokens: 5_016 }, 20_000);
    expect(estimate.tokensOf(9_000)).toBe(taught(3, 10).tokensOf(9_000));
    estimate.learn({ promptBytes: 5_000, promptTokens: 5_016 }, 20_000);
    expect(revived.tokensOf(9_000)).toBe(estimate.tokensOf(9_000));
  });

  test("whatever was learned, an estimate is finite, positive, and grows with the bytes", () => {
    const sample = fc.record({ promptBytes: fc.nat(1_000_000), promptTokens: fc.nat(1_000_000) });
    fc.assert(
      fc.property(fc.array(sample), fc.nat(4_000_000), (samples, promptBytes) => {
        const estimate = new TokenEstimate();
        for (const [index, each] of samples.entries()) estimate.learn(each, index);
        const tokens = estimate.tokensOf(promptBytes);
        expect(Number.isSafeInteger(tokens)).toBe(true);
        expect(tokens).toBeGreaterThan(0);
        expect(estimate.tokensOf(promptBytes + 1000)).toBeGreaterThanOrEqual(tokens);
      }),
    );
  });
});
