import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  PagedAttention,
  rotaryTable,
} from "../../../../gpu-backend/engine/executor/paged-attention.ts";
import { PublicRuntime } from "../../../../gpu-backend/engine/executor/public-runtime.ts";
import type { SegmentRuntime } from "../../../../gpu-backend/engine/executor/segment-runtime.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import type { KvPrecision } from "../../../../gpu-backend/engine/model/model-config.ts";
import { aConfig } from "./random-model.ts";

const BLOCK_COUNT = 50;
const CONTEXT_TOKENS = 800;

interface Shape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headDimensions: number;
  readonly blockTokens: number;
}

const aShape = fc
  .record({
    kvHeadCount: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 4 }),
    headDimensions: fc.constantFrom(16, 32, 48, 64),
    blockTokens: fc.constantFrom(16, 32),
  })
  .map(({ group, ...shape }): Shape => ({ ...shape, headCount: shape.kvHeadCount * group }));

/** One sequence's queries, keys and values, `[token][all heads]`, and the blocks it lives in. */
interface Sequence {
  readonly tokenCount: number;
  readonly qkv: Float32Array;
  readonly blocks: Int32Array;
}

/** The kernel over a pool all of whose bits are ones, NaN and -1, wherever nothing was stored. */
class Bench {
  readonly #shape: Shape;
  readonly #runtime: SegmentRuntime = PublicRuntime.create();
  readonly #attention: PagedAttention;
  readonly #qkvSize: number;

  constructor(shape: Shape, kvPrecision: KvPrecision) {
    this.#shape = shape;
    const { blockTokens, ...heads } = shape;
    // The pool is the first thing that the kernel's side reserves.
    const poolStart = this.#runtime.allocate(0);
    this.#attention = new PagedAttention(
      this.#runtime,
      aConfig({ ...heads, layerCount: 1, contextTokens: CONTEXT_TOKENS }),
      { blockTokens, blockCount: BLOCK_COUNT, kvPrecision },
    );
    const { buffer } = this.#runtime.memory;
    new Uint8Array(buffer, poolStart, this.#attention.kvPoolBytes).fill(0xff);
    this.#qkvSize = (shape.headCount + 2 * shape.kvHeadCount) * shape.headDimensions;
  }

  /** Computes tokens `from` to `to` of each sequence in one call; returns `[token][query heads]`. */
  run(parts: readonly { sequence: Sequence; from: number; to: number }[]): Float32Array[] {
    const { headCount, headDimensions, blockTokens } = this.#shape;
    const rowCount = parts.reduce((sum, { from, to }) => sum + to - from, 0);
    const qkv = this.#floats(rowCount * this.#qkvSize);
    const attended = this.#floats(rowCount * headCount * headDimensions);
    const positions = this.#ints(rowCount);
    const slots = this.#ints(rowCount);
    let row = 0;
    const spans = parts.map(({ sequence, from, to }) => {
      const first = row;
      const tokens = sequence.qkv.subarray(from * this.#qkvSize, to * this.#qkvSize);
      qkv.set(tokens, row * this.#qkvSize);
      const table = this.#ints(sequence.blocks.length);
      table.set(sequence.blocks);
      for (let position = from; position < to; position++, row++) {
        const block = sequence.blocks[Math.floor(position / blockTokens)] ?? 0;
        positions[row] = position;
        slots[row] = block * blockTokens + (position % blockTokens);
      }
      return {
        queryRow: first,
        outputRow: first,
        tokenCount: to - from,
        firstPosition: from,
        blockTable: table.byteOffset,
      };
    });
    const addresses = { qkv: qkv.byteOffset, attended: attended.byteOffset, rowCount };
    this.#attention.run(
      0,
      { ...addresses, positions: positions.byteOffset, slots: slots.byteOffset },
      spans,
    );
    const size = headCount * headDimensions;
    return spans.map(({ outputRow, tokenCount }) =>
      attended.slice(outputRow * size, (outputRow + tokenCount) * size),
    );
  }

  #floats(count: number): Float32Array {
    const address = this.#runtime.allocate(count * 4);
    return new Float32Array(this.#runtime.memory.buffer, address, count);
  }

  #ints(count: number): Int32Array {
    const address = this.#runtime.allocate(count * 4);
    return new Int32Array(this.#runtime.memory.buffer, address, count);
  }
}

/** Sequences of random numbers over blocks dealt at random. */
function makeSequences(shape: Shape, seed: number, tokenCounts: readonly number[]): Sequence[] {
  const random = seededRandom(seed);
  const blocks = Array.from({ length: BLOCK_COUNT }, (_, block) => block);
  const size = (shape.headCount + 2 * shape.kvHeadCount) * shape.headDimensions;
  return tokenCounts.map((tokenCount) => ({
    tokenCount,
    qkv: Float32Array.from({ length: tokenCount * size }, () => 4 * random() - 2),
    blocks: Int32Array.from({ length: Math.ceil(tokenCount / shape.blockTokens) }, () => {
      return blocks.splice(Math.floor(random() * blocks.length), 1)[0] ?? 0;
    }),
  }));
}

/** Attention by its definition, in f64. */
function naiveAttention(shape: Shape, sequence: Sequence): number[] {
  const { headCount, kvHeadCount, headDimensions } = shape;
  const size = (headCount + 2 * kvHeadCount) * headDimensions;
  const rotated = (token: number, head: number): number[] => {
    const vector = vectorAt(token, head);
    const half = headDimensions / 2;
    return vector.map((value, dimension) => {
      const pair = dimension % half;
      const angle = token * 10_000 ** (-pair / half);
      const other = dimension < half ? -(vector[pair + half] ?? 0) : (vector[pair] ?? 0);
      return value * Math.cos(angle) + other * Math.sin(angle);
    });
  };
  const vectorAt = (token: number, head: number): number[] => {
    const start = token * size + head * headDimensions;
    return Array.from(sequence.qkv.subarray(start, start + headDimensions));
  };
  const outputs: number[] = [];
  for (let token = 0; token < sequence.tokenCount; token++) {
    for (let head = 0; head < headCount; head++) {
      const kvHead = Math.floor(head / (headCount / kvHeadCount));
      const query = rotated(token, head);
      const weights = Array.from({ length: token + 1 }, (_, past) => {
        const key = rotated(past, headCount + kvHead);
        const product = query.reduce((sum, value, index) => sum + value * (key[index] ?? 0), 0);
        return Math.exp(product / Math.sqrt(headDimensions));
      });
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const mixed = Array.from({ length: headDimensions }, () => 0);
      weights.forEach((weight, past) => {
        vectorAt(past, headCount + kvHeadCount + kvHead).forEach((value, index) => {
          mixed[index] = (mixed[index] ?? 0) + (weight / total) * value;
        });
      });
      outputs.push(...mixed);
    }
  }
  return outputs;
}

/** A number for every dimension of a token's query (0), key (1) or value (2). */
type NumberOf = (token: number, part: number) => number;

/** 700 tokens of one head of 16 dimensions, in blocks of 16. */
function aLongSequence(numberOf: NumberOf): Sequence {
  const qkv = Float32Array.from({ length: 700 * 48 }, (_, index) => {
    return numberOf(Math.floor(index / 48), Math.floor((index % 48) / 16));
  });
  return { tokenCount: 700, qkv, blocks: Int32Array.from({ length: 44 }, (_, block) => block) };
}

const bitsOf = (values: Float32Array) => [...new Uint32Array(values.slice().buffer)];

/**
 * How far a result may be from its definition, where values are within ±2. Of 8-bit keys and values,
 * each is off by at most 1/254 of its head's largest number; 400 shapes had at most 0.012.
 */
const ERROR_MAX = { f32: 1e-5, int8: 0.03 } as const;

describe.each(["f32", "int8"] as const)("PagedAttention over %s", (kvPrecision) => {
  test("the kernel computes attention by its definition", () => {
    fc.assert(
      fc.property(aShape, fc.integer(), fc.integer({ min: 1, max: 40 }), (shape, start, tokens) => {
        const [sequence] = makeSequences(shape, start, [tokens]);
        if (sequence === undefined) throw new Error("a sequence was made");
        const [outputs] = new Bench(shape, kvPrecision).run([{ sequence, from: 0, to: tokens }]);
        const expected = naiveAttention(shape, sequence);
        const worst = expected.reduce(
          (worstSoFar, value, index) =>
            Math.max(worstSoFar, Math.abs(value - (outputs?.[index] ?? Infinity))),
          0,
        );
        expect(worst).toBeLessThan(ERROR_MAX[kvPrecision]);
      }),
      { numRuns: 40 },
    );
  });

  test("a token's result is the same bits alone, in any chunk and among any batch mates", () => {
    fc.assert(
      fc.property(
        aShape,
        fc.integer(),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 3 }),
        (shape, start, tokenCounts) => {
          const sequences = makeSequences(shape, start, tokenCounts);
          const whole = sequences.map((sequence) => {
            const bench = new Bench(shape, kvPrecision);
            return bench.run([{ sequence, from: 0, to: sequence.tokenCount }])[0];
          });
          const random = seededRandom(start);
          const together = new Bench(shape, kvPrecision);
          const done = sequences.map(() => 0);
          const size = shape.headCount * shape.headDimensions;
          while (done.some((count, index) => count < (tokenCounts[index] ?? 0))) {
            const parts = sequences.flatMap((sequence, index) => {
              const from = done[index] ?? 0;
              const to = Math.min(sequence.tokenCount, from + Math.floor(random() * 24));
              return to > from ? [{ sequence, index, from, to }] : [];
            });
            const outputs = together.run(parts);
            parts.forEach(({ index, from, to }, part) => {
              const expected = whole[index]?.slice(from * size, to * size) ?? new Float32Array(0);
              expect(bitsOf(outputs[part] ?? new Float32Array(0))).toEqual(bitsOf(expected));
              done[index] = to;
            });
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  // The kernels sum up values in stretches of 256 and 128 tokens, and take 16 queries of a head at once.
  test.each([1, 2, 3])(
    "sums go on behind a stretch of values, with %i heads a KV head",
    (headCount) => {
      const shape = { headCount, kvHeadCount: 1, headDimensions: 32, blockTokens: 16 };
      const [sequence] = makeSequences(shape, headCount, [265]);
      if (sequence === undefined) throw new Error("a sequence was made");
      const [whole] = new Bench(shape, kvPrecision).run([{ sequence, from: 0, to: 265 }]);
      const worst = naiveAttention(shape, sequence).reduce(
        (soFar, value, index) => Math.max(soFar, Math.abs(value - (whole?.[index] ?? Infinity))),
        0,
      );
      expect(worst).toBeLessThan(ERROR_MAX[kvPrecision]);
      const bench = new Bench(shape, kvPrecision);
      const size = headCount * shape.headDimensions;
      bench.run([{ sequence, from: 0, to: 250 }]);
      for (const [from, to] of [
        [250, 253],
        [253, 255],
        [255, 256],
        [256, 257],
        [257, 265],
      ] as const) {
        const [outputs] = bench.run([{ sequence, from, to }]);
        const expected = whole?.slice(from * size, to * size) ?? new Float32Array(0);
        expect(bitsOf(outputs ?? new Float32Array(0))).toEqual(bitsOf(expected));
      }
    },
  );

  describe("700 tokens", () => {
    const shape = { headCount: 1, kvHeadCount: 1, headDimensions: 16, blockTokens: 16 };
    const lastOf = (numberOf: NumberOf) => {
      const sequence = aLongSequence(numberOf);
      return new Bench(shape, kvPrecision).run([{ sequence, from: 0, to: 700 }])[0]?.at(-1);
    };

    test("that weigh the same and say the same are not too much for a sum", () => {
      expect(lastOf((_, part) => (part === 2 ? 1.5 : 0))).toBeCloseTo(1.5, 4);
    });

    test("count together, though one of them weighs 100,000 times as much as each", () => {
      // Rotation leaves the sums of squares as they are, so the last token looks at itself the most.
      const size = Math.sqrt((Math.log(1e5) * Math.sqrt(16)) / 16);
      const last = lastOf((token, part) => {
        if (part === 2) return token === 699 ? 0 : 100;
        return token === 699 ? size : 0;
      });
      const expected = (100 * 699e-5) / (1 + 699e-5);
      expect(last).toBeGreaterThan(0.75 * expected);
      expect(last).toBeLessThan(1.05 * expected);
    });
  });

  test("one sequence's infinities do not reach another that takes over its blocks", () => {
    const shape = { headCount: 4, kvHeadCount: 2, headDimensions: 16, blockTokens: 16 };
    const [long, short] = makeSequences(shape, 7, [32, 5]);
    if (long === undefined || short === undefined) throw new Error("two sequences were made");
    const [clean] = new Bench(shape, kvPrecision).run([{ sequence: short, from: 0, to: 5 }]);
    const bench = new Bench(shape, kvPrecision);
    bench.run([{ sequence: { ...long, qkv: long.qkv.fill(Infinity) }, from: 0, to: 32 }]);
    const reused = { ...short, blocks: long.blocks.slice(0, 1) };
    const [outputs] = bench.run([{ sequence: reused, from: 0, to: 5 }]);
    expect(bitsOf(outputs ?? new Float32Array(0))).toEqual(bitsOf(clean ?? new Float32Array(0)));
  });

  test("blocks that are no whole tiles are a bug", () => {
    const shape = { headCount: 1, kvHeadCount: 1, headDimensions: 16, blockTokens: 8 };
    expect(() => new Bench(shape, kvPrecision)).toThrow("blocks are whole tiles of 16 tokens");
  });
});

describe("rotaryTable", () => {
  test("position 0 turns nothing and position 1 turns each pair by its frequency", () => {
    const table = rotaryTable(aConfig({ headDimensions: 16, ropeTheta: 100 }), 2);
    expect([...table.subarray(0, 16)]).toEqual([...Array(8).fill(1), ...Array(8).fill(0)]);
    for (let pair = 0; pair < 8; pair++) {
      expect(table[16 + pair]).toBeCloseTo(Math.cos(100 ** (-pair / 8)), 6);
      expect(table[16 + 8 + pair]).toBeCloseTo(Math.sin(100 ** (-pair / 8)), 6);
    }
  });
});
