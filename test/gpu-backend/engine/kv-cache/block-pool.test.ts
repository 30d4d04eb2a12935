import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BlockPool } from "../../../../gpu-backend/engine/kv-cache/block-pool.ts";

/** The same pool as plain lists: slow, and too simple to be wrong. */
class NaiveBlockPool {
  readonly references: number[];
  free: number[];

  constructor(blockCount: number) {
    this.references = Array.from({ length: blockCount }, () => 0);
    this.free = this.references.map((_, block) => block);
  }

  take(): number {
    const block = this.free.shift() ?? 0;
    this.references[block] = 1;
    return block;
  }

  retain(block: number): void {
    this.references[block] = (this.references[block] ?? 0) + 1;
    this.free = this.free.filter((other) => other !== block);
  }

  release(block: number, evict: "next" | "last"): void {
    this.references[block] = (this.references[block] ?? 0) - 1;
    if (this.references[block] !== 0) return;
    this.free = evict === "next" ? [block, ...this.free] : [...this.free, block];
  }
}

const BLOCK_COUNT = 7;
const operation = fc.oneof(
  fc.record({ kind: fc.constant("take" as const) }),
  fc.record({ kind: fc.constant("retain" as const), block: fc.nat(BLOCK_COUNT - 1) }),
  fc.record({
    kind: fc.constant("release" as const),
    block: fc.nat(BLOCK_COUNT - 1),
    evict: fc.constantFrom("next" as const, "last" as const),
  }),
);

describe("BlockPool", () => {
  test("agrees with a pool made of plain lists after every operation", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60, size: "max" }), (operations) => {
        const pool = new BlockPool(BLOCK_COUNT);
        const naive = new NaiveBlockPool(BLOCK_COUNT);
        const taken: [number, number][] = [];
        for (const step of operations) {
          if (step.kind === "take" && naive.free.length > 0) {
            taken.push([pool.take(), naive.take()]);
          }
          if (step.kind === "retain") {
            pool.retain(step.block);
            naive.retain(step.block);
          }
          if (step.kind === "release" && (naive.references[step.block] ?? 0) > 0) {
            pool.release(step.block, step.evict);
            naive.release(step.block, step.evict);
          }
          pool.checkInvariants();
          expect(pool.evictionOrder()).toEqual(naive.free);
          expect(pool.freeBlocks).toBe(naive.free.length);
          expect(pool.usedBlocks).toBe(BLOCK_COUNT - naive.free.length);
        }
        expect(taken.map(([block]) => block)).toEqual(taken.map(([, block]) => block));
        expect(naive.references.map((_, block) => pool.referencesOf(block))).toEqual(
          naive.references,
        );
      }),
      { numRuns: 300 },
    );
  });

  test("hands out every block, the first among them", () => {
    const pool = new BlockPool(3);
    expect([pool.take(), pool.take(), pool.take()]).toEqual([0, 1, 2]);
    expect(pool.freeBlocks).toBe(0);
  });

  test("a block is never taken from an empty pool", () => {
    const pool = new BlockPool(1);
    pool.take();
    expect(() => pool.take()).toThrow("none free");
  });

  test("a block is not released more often than it was held", () => {
    const pool = new BlockPool(2);
    const block = pool.take();
    pool.release(block, "last");
    expect(() => pool.release(block, "last")).toThrow("more often");
  });

  test("a block outside the pool is a fault", () => {
    expect(() => new BlockPool(2).retain(2)).toThrow("not of this pool");
  });
});
