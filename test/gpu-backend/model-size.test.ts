import { describe, expect, test } from "vitest";
import type { ModelConfig } from "../../gpu-backend/engine/model/model-config.ts";
import { defaultBlockCount } from "../../gpu-backend/model-size.ts";

/** A token of it has 2 × 4 × 2 × 32 numbers of KV, which are 2 KiB. */
const aConfig = (overrides: Partial<ModelConfig> = {}): ModelConfig => ({
  hiddenSize: 128,
  layerCount: 4,
  headCount: 4,
  kvHeadCount: 2,
  headDimensions: 32,
  mlpSize: 256,
  vocabularyTokens: 100,
  contextTokens: 2048,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  tiedEmbeddings: true,
  eosTokenIds: [2],
  ...overrides,
});

describe("defaultBlockCount()", () => {
  test("is what fits 128 MiB, and one context where that is more", () => {
    const pool = { blockTokens: 16, shareCount: 1, kvPrecision: "f32" } as const;
    expect(defaultBlockCount(aConfig(), pool)).toBe(4096);
    expect(defaultBlockCount(aConfig({ contextTokens: 131_072 }), pool)).toBe(8192);
  });

  test("is 3.6 times as much in 8 bits, where a head of 32 numbers has a scale", () => {
    const pool = { blockTokens: 16, shareCount: 1, kvPrecision: "int8" } as const;
    expect(defaultBlockCount(aConfig(), pool)).toBe(Math.floor((4096 * 128) / 36));
  });

  test("that has no block for each share is refused with what would be right", () => {
    const pool = { blockTokens: 1024, kvPrecision: "f32" } as const;
    expect(defaultBlockCount(aConfig(), { ...pool, shareCount: 64 })).toBe(64);
    expect(() => defaultBlockCount(aConfig(), { ...pool, shareCount: 65 })).toThrow(
      "--kv-shares: expected at most 64, the blocks of the default KV pool for this model, " +
        "found 65; --kv-blocks makes the pool larger",
    );
  });
});
