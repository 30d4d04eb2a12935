import assert from "node:assert/strict";
import type { Batch, BatchRow } from "../../gpu-backend/engine/batch.ts";
import { logitRowsOf } from "../../gpu-backend/engine/batch.ts";
import type { GenerateRequest, TokenLogprob } from "../../gpu-backend/engine/generate-request.ts";
import { tokenLogprob } from "../../gpu-backend/engine/log-probability.ts";
import { type ChosenToken, Sampler } from "../../gpu-backend/engine/sampler.ts";
import type { StepOutput } from "../../gpu-backend/engine/step-output.ts";
import type { TokenConstraint } from "../../gpu-backend/engine/token-constraint.ts";
import { TokenHistory } from "../../gpu-backend/engine/token-history.ts";
import type { Random } from "../../src/base/random.ts";

const HIDDEN_SIZE = 3;

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

  /** Computes a step. */
  run(batch: Batch): StepOutput {
    this.#checkRowsKeepApart(batch);
    const { vocabularyTokens } = this.#options;
    const logits: number[] = [];
    const hidden: number[] = [];
    let rowCount = 0;
    for (const row of batch.rows) {
      const values = this.#computeRow(row);
      const logitRows = logitRowsOf(row);
      rowCount += logitRows;
      for (const value of values.slice(values.length - logitRows)) {
        logits.push(...logitsOf(value, vocabularyTokens));
      }
      if (row.output === "hidden") hidden.push(...values.flatMap(hiddenOf));
    }
    return {
      rowCount,
      vocabularyTokens,
      values: Float32Array.from(logits),
      hiddenSize: HIDDEN_SIZE,
      hidden: Float32Array.from(hidden),
    };
  }

  /** Of one block. */
  get blockBytes(): number {
    return this.#options.blockTokens * this.#slots.BYTES_PER_ELEMENT;
  }

  readBlock(block: number, target: Uint8Array): void {
    target.set(this.#bytesOf(block));
  }

  writeBlock(block: number, source: Uint8Array): void {
    this.#bytesOf(block).set(source);
  }

  #bytesOf(block: number): Uint8Array {
    return new Uint8Array(this.#slots.buffer, block * this.blockBytes, this.blockBytes);
  }

  /** Fails in the middle of a step: some slots of its tokens are written, with garbage. */
  runAndFail(batch: Batch, random: Random): void {
    for (const row of batch.rows) {
      for (const slot of this.#slotsOf(row).slice(row.startPosition)) {
        if (random() < 0.7) this.#slots[slot] = Math.floor(random() * 2 ** 32);
      }
    }
  }

  /** Writes the slots of a row's tokens, and returns their values. */
  #computeRow(row: BatchRow): number[] {
    const slots = this.#slotsOf(row);
    const earlier = slots.slice(0, row.startPosition).map((slot) => this.#slots[slot] ?? 0);
    const values = computeValues(earlier, [...row.tokens]);
    for (const [index, value] of values.entries()) {
      const slot = slots[row.startPosition + index];
      assert(slot !== undefined);
      this.#slots[slot] = value;
    }
    assert(values.length > 0, "A row computes at least one token");
    return values;
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
  /** The request's own, in its first state. */
  readonly constraint?: TokenConstraint;
}

/** What a request gets that is alone, in one piece and with memory to spare. */
export interface AloneAnswer {
  readonly chosen: readonly ChosenToken[];
  readonly reason: "stop" | "length" | "failed";
  readonly promptLogprobs: readonly (TokenLogprob | undefined)[] | undefined;
  readonly embedding: Float32Array | undefined;
}

/** Answers a request by the definition: everything is counted again for every token. */
export function generateAlone(request: GenerateRequest, options: AloneOptions): AloneAnswer {
  const { vocabularyTokens } = options;
  const values = computeValues([], request.promptTokens);
  const prompt = {
    promptLogprobs: scoreAlone(request, values, vocabularyTokens),
    embedding: request.pooling === undefined ? undefined : poolAlone(values),
  };
  const chosen: ChosenToken[] = [];
  for (;;) {
    const isFull = request.promptTokens.length + chosen.length >= options.sequenceTokensMax;
    if (isFull || chosen.length >= request.outputTokensMax) {
      return { ...prompt, chosen, reason: "length" };
    }
    const next = chooseAlone(request, logitsOf(values.at(-1) ?? 0, vocabularyTokens), {
      output: chosen.map((token) => token.tokenId),
      constraint: options.constraint,
    });
    if (next === undefined) return { ...prompt, chosen, reason: "failed" };
    chosen.push(next);
    if (request.stopTokenIds.includes(next.tokenId)) return { ...prompt, chosen, reason: "stop" };
    options.constraint?.accept(next.tokenId);
    values.push(...computeValues(values, [next.tokenId]));
  }
}

/** The next token, or `undefined` where the constraint allows none. */
function chooseAlone(
  request: GenerateRequest,
  logits: Float32Array,
  state: { readonly output: readonly number[]; readonly constraint: TokenConstraint | undefined },
): ChosenToken | undefined {
  const { sampling, promptTokens, logprobsTop, stopTokenIds, outputTokensMin } = request;
  const { output, constraint } = state;
  if (constraint?.allowedTokens().every((word) => word === 0) === true) return undefined;
  const history = new TokenHistory(sampling, promptTokens);
  for (const token of output) history.add(token);
  return new Sampler(logits.length).choose(logits, {
    sampling,
    outputIndex: output.length,
    history,
    forbiddenTokenIds: output.length < outputTokensMin ? stopTokenIds : [],
    ...(constraint !== undefined && { constraint }),
    ...(logprobsTop !== undefined && { logprobsTop }),
  });
}

function scoreAlone(
  { promptTokens, promptLogprobsTop }: GenerateRequest,
  values: readonly number[],
  vocabularyTokens: number,
): AloneAnswer["promptLogprobs"] {
  if (promptLogprobsTop === undefined) return undefined;
  return promptTokens.map((token, position) => {
    const before = values[position - 1];
    if (before === undefined) return undefined;
    return tokenLogprob(logitsOf(before, vocabularyTokens), token, promptLogprobsTop);
  });
}

function poolAlone(values: readonly number[]): Float32Array {
  const sums = Array.from({ length: HIDDEN_SIZE }, (_, dimension) =>
    values.reduce((sum, value) => sum + (hiddenOf(value)[dimension] ?? 0), 0),
  );
  const length = Math.hypot(...sums);
  return Float32Array.from(sums, (sum) => sum / length);
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

/** Fractions that f32 rounds, so that the order in which they are summed shows. */
function hiddenOf(value: number): number[] {
  return Array.from({ length: HIDDEN_SIZE }, (_, dimension) =>
    Math.fround(mix(value, -1 - dimension) / 3e9),
  );
}

function mix(state: number, value: number): number {
  let mixed = Math.imul(state ^ 0x9e3779b9, 0x85ebca6b) ^ (value + 0x7f4a7c15);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35);
  return mixed ^ (mixed >>> 13);
}
