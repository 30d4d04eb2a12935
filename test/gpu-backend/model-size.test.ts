import { describe, expect, test } from "vitest";
import type { ModelConfig } from "../../gpu-backend/engine/model/model-config.ts";
import { aConfig } from "./engine/executor/random-model.ts";
import { defaultBlockCount } from "../../gpu-backend/model-size.ts";

/** A token of it has 2 × 4 × 2 × 32 numbers of KV, which are 2 KiB. */
const aConfigOf = (overrides: Partial<ModelConfig> = {}): ModelConfig =>
  aConfig({
    hiddenSize: 128,
    layerCount: 4,
    headCount: 4,
    kvHeadCount: 2,
    headDimensions: 32,
    mlpSize: 256,
    vocabularyTokens: 100,
    contextTokens: 2048,
    ...overrides,
  });

const POOL = {
  blockTokens: 16,
  shareCount: 1,
  kvPrecision: "f32",
  roomBytes: 2 ** 31,
} as const;

describe("defaultBlockCount()", () => {
  test("is what fits 128 MiB, and one context where that is more", () => {
    expect(defaultBlockCount(aConfigOf(), POOL)).toBe(4096);
    expect(defaultBlockCount(aConfigOf({ contextTokens: 131_072 }), POOL)).toBe(8192);
  });

  test("is at most 1 GiB and what there is room for, whatever the context", () => {
    const config = aConfigOf({ contextTokens: 10_000_000 });
    expect(defaultBlockCount(config, POOL)).toBe(2 ** 30 / 2048 / 16);
    expect(defaultBlockCount(config, { ...POOL, roomBytes: 2 ** 26 })).toBe(2048);
    expect(defaultBlockCount(config, { ...POOL, roomBytes: -5 })).toBe(2);
  });

  test("is 3.6 times as much in 8 bits, where a head of 32 numbers has a scale", () => {
    const pool = { ...POOL, kvPrecision: "int8" } as const;
    expect(defaultBlockCount(aConfigOf(), pool)).toBe(Math.floor((4096 * 128) / 36));
  });

  test("that has no block for each share is refused with what would be right", () => {
    const pool = { ...POOL, blockTokens: 1024 };
    expect(defaultBlockCount(aConfigOf(), { ...pool, shareCount: 64 })).toBe(64);
    expect(() => defaultBlockCount(aConfigOf(), { ...pool, shareCount: 65 })).toThrow(
      "--kv-shares: expected at most 64, the blocks of the default KV pool for this model, " +
        "found 65; --kv-blocks makes the pool larger",
    );
  });
});
