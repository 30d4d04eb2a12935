import assert from "node:assert/strict";
import type { Batch, BatchRow } from "../../gpu-backend/engine/batch.ts";
import { logitRowCount } from "../../gpu-backend/engine/batch.ts";
import type { GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { sampleToken } from "../../gpu-backend/engine/sampler.ts";
import type { Random } from "../../src/base/random.ts";

export interface PagedMemoryOptions {
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly vocabularyTokens: number;
}

/**
 * A stand-in for a language model that has nothing but a paged memory.
 *
 * Like KV, the value of a slot follows from its token and from the slots of all tokens before it, which are
 * read back through the row's block table; logits follow from the last slot. A wrong block
 * table, a hit on another prefix, an eviction too early or a slot left over from a failed step
 * therefore changes every later token.
 */
export class PagedMemoryModel {
  readonly #options: PagedMemoryOptions;
  readonly #slots: Int32Array;

  constructor(options: PagedMemoryOptions) {
    this.#options = options;
    this.#slots = new Int32Array(options.blockCount * options.blockTokens);
  }

  /** Computes a step. Returns logits, `[logitRowCount(batch), vocabularyTokens]`. */
  run(batch: Batch): Float32Array {
    this.#checkRowsKeepApart(batch);
    const { vocabularyTokens } = this.#options;
    const values = new Float32Array(logitRowCount(batch) * vocabularyTokens);
    let logitRows = 0;
    for (const row of batch.rows) {
      const last = this.#computeRow(row);
      if (row.logits !== "last") continue;
      values.set(logitsOf(last, vocabularyTokens), logitRows * vocabularyTokens);
      logitRows += 1;
    }
    return values;
  }

  /** Fails in the middle of a step: some slots of its tokens are written, with garbage. */
  runAndFail(batch: Batch, random: Random): void {
    for (const row of batch.rows) {
      for (const slot of this.#slotsOf(row).slice(row.startPosition)) {
        if (random() < 0.7) this.#slots[slot] = Math.floor(random() * 2 ** 32);
      }
    }
  }

  #computeRow(row: BatchRow): number {
    const slots = this.#slotsOf(row);
    const earlier = slots.slice(0, row.startPosition).map((slot) => this.#slots[slot] ?? 0);
    const values = computeValues(earlier, [...row.tokens]);
    for (const [index, value] of values.entries()) {
      const slot = slots[row.startPosition + index];
      assert(slot !== undefined);
      this.#slots[slot] = value;
    }
    const last = values.at(-1);
    assert(last !== undefined, "A row computes at least one token");
    return last;
  }

  /** The physical slots of all positions that a row reads or writes. */
  #slotsOf(row: BatchRow): number[] {
    const { blockTokens, blockCount } = this.#options;
    const tokens = row.startPosition + row.tokens.length;
    assert.equal(row.blockTable.length, Math.ceil(tokens / blockTokens), "A table covers its row");
    return Array.from({ length: tokens }, (_, position) => {
      const block = row.blockTable[Math.floor(position / blockTokens)];
      assert(block !== undefined && block >= 0 && block < blockCount, "A block is of the pool");
      return block * blockTokens + (position % blockTokens);
    });
  }

  /** Rows run in any order, or at once: no row may write what another one reads or writes. */
  #checkRowsKeepApart(batch: Batch): void {
    const uses = batch.rows.flatMap((row) => this.#slotsOf(row));
    const writes = batch.rows.flatMap((row) => this.#slotsOf(row).slice(row.startPosition));
    const usesOf = new Map<number, number>();
    for (const slot of uses) usesOf.set(slot, (usesOf.get(slot) ?? 0) + 1);
    for (const slot of writes) assert.equal(usesOf.get(slot), 1, `Slot ${slot} has one writer`);
  }
}

export interface AloneOptions {
  readonly vocabularyTokens: number;
  /** Prompt and output together end here at the latest. */
  readonly sequenceTokensMax: number;
}

/** What the model answers to a request that is alone, in one piece and with memory to spare. */
export function generateAlone(
  request: GenerateRequest,
  options: AloneOptions,
): { readonly tokens: number[]; readonly reason: "stop" | "length" } {
  const values = computeValues([], request.promptTokens);
  const tokens: number[] = [];
  for (;;) {
    const logits = logitsOf(values.at(-1) ?? 0, options.vocabularyTokens);
    const tokenId = sampleToken(logits, request.sampling, tokens.length);
    tokens.push(tokenId);
    if (request.stopTokenIds.includes(tokenId)) return { tokens, reason: "stop" };
    const isFull = request.promptTokens.length + tokens.length >= options.sequenceTokensMax;
    if (isFull || tokens.length >= request.outputTokensMax) return { tokens, reason: "length" };
    values.push(...computeValues(values, [tokenId]));
  }
}

/** The slots of new tokens: each mixes its token with the slots of all tokens before it. */
function computeValues(earlier: readonly number[], tokens: readonly number[]): number[] {
  let attended = earlier.reduce(mix, 0);
  return tokens.map((token) => {
    const value = mix(attended, token);
    attended = mix(attended, value);
    return value;
  });
}

/** Few distinct levels, so that greedy decoding and top-k meet ties. */
function logitsOf(value: number, vocabularyTokens: number): Float32Array {
  return Float32Array.from(
    { length: vocabularyTokens },
    (_, token) => ((mix(value, token) >>> 8) % 9) - 4,
  );
}

function mix(state: number, value: number): number {
  let mixed = Math.imul(state ^ 0x9e3779b9, 0x85ebca6b) ^ (value + 0x7f4a7c15);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35);
  return mixed ^ (mixed >>> 13);
}
