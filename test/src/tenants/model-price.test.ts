import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { costMaxOf, costOf, PRICE_MICROS_MAX } from "../../../src/tenants/model-price.ts";

const price = {
  inputPicosPerToken: 150_000,
  cachedInputPicosPerToken: 75_000,
  outputPicosPerToken: 600_000,
};

const use = (promptTokens: number, outputTokens: number, cachedTokens = 0) => ({
  promptTokens,
  outputTokens,
  cachedTokens,
});

describe("costOf()", () => {
  test("charges prompt, cached prompt and output each by its own price", () => {
    const pricing = { price, outputTokensMax: 100 };
    expect(costOf(use(10, 3, 4), pricing)).toBe(6n * 150_000n + 4n * 75_000n + 3n * 600_000n);
  });

  test("charges nothing where there is no price", () => {
    expect(costOf(use(10, 3), undefined)).toBe(0n);
    expect(costMaxOf(10, undefined)).toBe(0n);
  });

  test("takes no more of a prompt for cached than there is", () => {
    expect(costOf(use(10, 0, 11), { price, outputTokensMax: 1 })).toBe(10n * 75_000n);
  });

  test("is exact where numbers are not", () => {
    const dear = { ...price, outputPicosPerToken: PRICE_MICROS_MAX };
    const pricing = { price: dear, outputTokensMax: 10_000_001 };
    expect(costOf(use(0, 10_000_001), pricing)).toBe(10_000_001_000_000_000_000n);
  });

  test("is never above the bound, whatever prices, and whatever of the prompt is cached", () => {
    const picos = fc.nat(1_000);
    fc.assert(
      fc.property(
        fc.tuple(picos, picos, picos),
        fc.tuple(fc.nat(500), fc.nat(500), fc.nat(500), fc.nat(500)),
        ([input, cached, output], [promptTokens, fewer, cachedTokens, outputTokens]) => {
          const pricing = {
            price: {
              inputPicosPerToken: input,
              cachedInputPicosPerToken: cached,
              outputPicosPerToken: output,
            },
            outputTokensMax: outputTokens,
          };
          const prompt = Math.min(promptTokens, fewer);
          const cost = costOf(use(prompt, outputTokens, cachedTokens), pricing);
          expect(cost <= costMaxOf(promptTokens, pricing)).toBe(true);
        },
      ),
    );
  });
});
