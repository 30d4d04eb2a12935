import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { VARIANTS } from "../../../support/checkpoint-variants.ts";
import {
  randomCheckpoint,
  type StoredType,
  writeCheckpoint,
} from "../../../support/random-checkpoint.ts";
import { referenceLogits } from "../../../support/reference-model.ts";
import { aBatch, blocksFrom } from "./batches.ts";
import { RUNTIMES_AND_PRECISIONS } from "./runtimes.ts";

const TOKENS = 90;
const BLOCKS = Math.ceil(TOKENS / 16);
/** Stored in turn as each type, in one file or in three. */
const STORED: readonly { readonly type: StoredType; readonly shards: number }[] = [
  { type: "F32", shards: 1 },
  { type: "BF16", shards: 3 },
  { type: "F16", shards: 1 },
  { type: "BF16", shards: 1 },
  { type: "F16", shards: 3 },
];

/**
 * The largest difference of a logit, as a share of the largest logit. Measured: at most 2.9e-6 in f32,
 * and 0.064 in int8, which random weights of so few inputs make far worse than trained ones.
 */
const ERROR_MAX = { f32: 1e-4, int8: 0.12 } as const;

const cases = Object.entries(VARIANTS).flatMap(([name, shape], index) =>
  RUNTIMES_AND_PRECISIONS.map((way) => ({ name, shape, index, ...way })),
);

describe.each(cases)("$name in $precision on $runtime", ({ shape, index, precision, runtime }) => {
  const checkpoint = randomCheckpoint(100 + index, shape);
  const random = seededRandom(7 + index);
  const text = Array.from({ length: TOKENS }, () => Math.floor(random() * shape.vocab_size));
  let directory: string;
  let executor: OnnxExecutor;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "variant-"));
    await writeCheckpoint(directory, checkpoint, STORED[index % STORED.length]);
    executor = await createOnnxExecutor({
      model: directory,
      precision,
      runtime,
      blockTokens: 16,
      blockCount: 3 * BLOCKS,
      batchTokensMax: 256,
    });
  }, 60_000);
  afterAll(async () => {
    await executor.close();
    await rm(directory, { recursive: true });
  });

  const whole = async () => {
    const blockTable = blocksFrom(0, BLOCKS);
    const { values } = await executor.run(aBatch([{ tokens: text, blockTable, output: "all" }]));
    return values.slice();
  };

  test("logits are those of the definition", async () => {
    const expected = referenceLogits(checkpoint, text).flatMap((row) => [...row]);
    const values = await whole();
    expect(values).toHaveLength(expected.length);
    const largest = Math.max(...expected.map(Math.abs));
    const off = Math.max(...expected.map((logit, i) => Math.abs(logit - (values[i] ?? Infinity))));
    expect(off / largest).toBeLessThan(ERROR_MAX[precision]);
  });

  test("in chunks, beside another text and in other blocks the bits are those of the whole alone", async () => {
    const alone = await whole();
    const blockTable = blocksFrom(BLOCKS, BLOCKS);
    const other = text.toReversed();
    const rows: number[] = [];
    let computed = 0;
    for (const count of [1, 33, 1, 20, TOKENS - 55]) {
      const { values } = await executor.run(
        aBatch([
          {
            sequenceId: "other",
            tokens: other.slice(0, 40),
            blockTable: blocksFrom(2 * BLOCKS, 3),
          },
          {
            sequenceId: "own",
            tokens: text.slice(computed, computed + count),
            startPosition: computed,
            blockTable,
            output: "all",
          },
        ]),
      );
      rows.push(...values.subarray(executor.vocabularyTokens));
      computed += count;
    }
    expect(computed).toBe(TOKENS);
    expect(Float32Array.from(rows)).toEqual(alone);
  });
});
