import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import { type LoadedModel, loadModel } from "../../../../gpu-backend/engine/model/load-model.ts";
import { type Random, seededRandom } from "../../../../src/base/random.ts";
import { aBatch, blocksFrom, type RowOptions } from "./batches.ts";
import { aConfig, aModel } from "./random-model.ts";
import { RUNTIMES_AND_PRECISIONS } from "./runtimes.ts";

const MODELS = join(import.meta.dirname, "../../../../gpu-backend/models");
const BLOCK_TOKENS = 16;
const BLOCK_COUNT = 64;
const BATCH_TOKENS_MAX = 160;

/** Whole numbers from 0 to `below` - 1. */
const pick = (random: Random, below: number) => Math.floor(random() * below);

/** What an executor may be asked for after each token, as bits by the token's position. */
interface Outputs {
  readonly logits: Map<number, string>;
  readonly hidden: Map<number, string>;
}

/** Both outputs of a text that is computed alone, whole and in neighbouring blocks. */
async function outputsAlone(executor: OnnxExecutor, tokens: readonly number[]): Promise<Outputs> {
  const blockTable = blocksFrom(0, Math.ceil(tokens.length / BLOCK_TOKENS));
  const run = (output: "all" | "hidden") => executor.run(aBatch([{ tokens, blockTable, output }]));
  const { values } = await run("all");
  const logits = new Map(bitsOf(values, executor.vocabularyTokens).entries());
  const { hidden, hiddenSize } = await run("hidden");
  return { logits, hidden: new Map(bitsOf(hidden, hiddenSize).entries()) };
}

/** The bits of each row; as text, so that a comparison is quick and its failure readable. */
function bitsOf(values: Float32Array, width: number): string[] {
  const bytes = Buffer.from(values.slice().buffer);
  return Array.from({ length: values.length / width }, (_, row) =>
    bytes.subarray(row * width * 4, (row + 1) * width * 4).toString("base64"),
  );
}

/**
 * Computes several texts at once, in chunks of random sizes that are mixed in random steps, over
 * blocks dealt at random, asking here for all logits, there for the last or for hidden states. Yields each
 * text's outputs, those that were asked for.
 */
async function outputsMixed(
  executor: OnnxExecutor,
  texts: readonly (readonly number[])[],
  random: Random,
): Promise<Outputs[]> {
  const freeBlocks = [...blocksFrom(0, BLOCK_COUNT)];
  const sequences = texts.map((tokens) => ({
    tokens,
    computed: 0,
    blockTable: Int32Array.from({ length: Math.ceil(tokens.length / BLOCK_TOKENS) }, () => {
      return freeBlocks.splice(pick(random, freeBlocks.length), 1)[0] ?? 0;
    }),
    logits: new Map<number, string>(),
    hidden: new Map<number, string>(),
  }));
  while (sequences.some(({ tokens, computed }) => computed < tokens.length)) {
    const chunks: (RowOptions & { readonly firstRow: number; readonly index: number })[] = [];
    let room = BATCH_TOKENS_MAX;
    for (const [index, sequence] of sequences.entries()) {
      // Every other chunk is a single token, as in decoding.
      const wanted = random() < 0.5 ? 1 : 1 + pick(random, 40);
      const left = sequence.tokens.length - sequence.computed;
      const count = Math.min(wanted, left, room);
      if (count === 0 || random() < 0.2) continue;
      room -= count;
      chunks.push({
        index,
        sequenceId: String(index),
        tokens: sequence.tokens.slice(sequence.computed, sequence.computed + count),
        startPosition: sequence.computed,
        blockTable: sequence.blockTable,
        output: (["none", "last", "all", "hidden"] as const)[pick(random, 4)] ?? "last",
        firstRow: 0,
      });
    }
    if (chunks.length === 0) continue;
    const { values, hidden, hiddenSize } = await executor.run(aBatch(chunks));
    const logitRows = bitsOf(values, executor.vocabularyTokens)[Symbol.iterator]();
    const hiddenRows = bitsOf(hidden, hiddenSize)[Symbol.iterator]();
    for (const chunk of chunks) {
      const sequence = sequences[chunk.index];
      if (sequence === undefined) throw new Error("a chunk has a sequence");
      const start = sequence.computed;
      sequence.computed += chunk.tokens.length;
      for (let position = start; position < sequence.computed; position++) {
        const isLast = position === sequence.computed - 1;
        if (chunk.output === "all" || (chunk.output === "last" && isLast)) {
          sequence.logits.set(position, logitRows.next().value ?? "");
        }
        if (chunk.output === "hidden") sequence.hidden.set(position, hiddenRows.next().value ?? "");
      }
    }
    expect([logitRows.next().done, hiddenRows.next().done], "no row is left over").toEqual([
      true,
      true,
    ]);
  }
  return sequences;
}

interface Subject {
  readonly name: string;
  readonly load: () => Promise<LoadedModel>;
  readonly numRuns: number;
  readonly tokensMax: number;
}

const SUBJECTS: readonly Subject[] = [
  {
    name: "sluice-tiny",
    load: () => loadModel(join(MODELS, "sluice-tiny")),
    numRuns: 6,
    tokensMax: 120,
  },
  {
    // No size but those of a head is a multiple of a vector's width.
    name: "a random model of odd sizes",
    load: async () => aModel(3, aConfig({ hiddenSize: 37, mlpSize: 51, vocabularyTokens: 61 })),
    numRuns: 30,
    tokensMax: 150,
  },
];

const cases = SUBJECTS.flatMap((subject) =>
  RUNTIMES_AND_PRECISIONS.map((way) => ({ subject, way })),
);

describe.each(cases)("$subject.name in $way.precision on $way.runtime", ({ subject, way }) => {
  let executor: OnnxExecutor;
  beforeAll(async () => {
    executor = await createExecutor(await subject.load(), way);
  }, 60_000);
  afterAll(() => executor.close());

  test("a token's logits and hidden state are the same bits alone, chunked, batched and in scattered blocks", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.array(fc.integer({ min: 1, max: subject.tokensMax }), { minLength: 1, maxLength: 6 }),
        async (seed, lengths) => {
          const random = seededRandom(seed);
          const texts = lengths.map((length) =>
            Array.from({ length }, () => pick(random, executor.vocabularyTokens)),
          );
          const mixed = await outputsMixed(executor, texts, random);
          for (const [index, text] of texts.entries()) {
            const alone = await outputsAlone(executor, text);
            for (const output of ["logits", "hidden"] as const) {
              for (const [position, bits] of mixed[index]?.[output] ?? []) {
                expect(bits, `${output} of text ${index}, position ${position}`).toBe(
                  alone[output].get(position),
                );
              }
            }
          }
        },
      ),
      { numRuns: subject.numRuns },
    );
  }, 120_000);

  test("a prefix that another sequence computed continues to the same bits", async () => {
    const random = seededRandom(11);
    const text = Array.from({ length: 70 }, () => pick(random, executor.vocabularyTokens));
    const alone = await outputsAlone(executor, text);
    const owner = Int32Array.of(40, 3, 22);
    await executor.run(aBatch([{ tokens: text.slice(0, 48), blockTable: owner, output: "none" }]));
    const { values } = await executor.run(
      aBatch([
        {
          sequenceId: "sharer",
          tokens: text.slice(48),
          startPosition: 48,
          blockTable: Int32Array.of(...owner, 9, 30),
          output: "all",
        },
        { sequenceId: "other", tokens: [1, 2], blockTable: Int32Array.of(50) },
      ]),
    );
    expect(bitsOf(values, executor.vocabularyTokens).slice(0, 22)).toEqual(
      [...alone.logits.values()].slice(48),
    );
  });
});

function createExecutor(
  model: LoadedModel,
  way: (typeof RUNTIMES_AND_PRECISIONS)[number],
): Promise<OnnxExecutor> {
  return createOnnxExecutor({
    model,
    ...way,
    blockTokens: BLOCK_TOKENS,
    blockCount: BLOCK_COUNT,
    batchTokensMax: BATCH_TOKENS_MAX,
  });
}
