import { assert } from "../../../src/base/assert.ts";
import { type Batch, type BatchRow, hiddenRowsOf, logitRowCount, logitRowsOf } from "../batch.ts";

/** What bounds a batch; breaking it is a bug of the scheduler. */
export interface BatchLimits {
  readonly vocabularyTokens: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;
}

/** One sequence's part of a packed batch. */
export interface PackedSpan {
  /** Its first row among the packed tokens. */
  readonly firstRow: number;
  readonly tokenCount: number;
  readonly startPosition: number;
  /** Where its block ids begin in `blockIds`. */
  readonly firstBlock: number;
  /** Of its last rows so many have logits. */
  readonly logitRows: number;
  /** Or so many have hidden states to give; never both. */
  readonly hiddenRows: number;
}

/** A batch as the kernel and the segments take it: every token of every sequence, row after row. */
export interface PackedBatch {
  readonly tokens: Int32Array;
  /** Position of each token in its sequence. */
  readonly positions: Int32Array;
  /** Slot of each token in the pool: block times `blockTokens` plus its place in the block. */
  readonly slots: Int32Array;
  /** The block tables of all sequences, as far as this step needs them, one behind the other. */
  readonly blockIds: Int32Array;
  readonly spans: readonly PackedSpan[];
  readonly logitRowCount: number;
}

/** The length of the longest sequence: the model's context, or all of a pool that is smaller. */
export function positionCountOf(
  limits: Pick<BatchLimits, "contextTokens" | "blockTokens" | "blockCount">,
): number {
  return Math.min(limits.contextTokens, limits.blockCount * limits.blockTokens);
}

/** Packs a batch without padding. Asserts that it is within the limits and consistent. */
export function packBatch(batch: Batch, limits: BatchLimits): PackedBatch {
  checkBatch(batch, limits);
  const { blockTokens } = limits;
  const tokens = new Int32Array(batch.totalTokens);
  const positions = new Int32Array(batch.totalTokens);
  const slots = new Int32Array(batch.totalTokens);
  const blockIds = new Int32Array(
    batch.rows.reduce((sum, row) => sum + blocksOf(row, blockTokens), 0),
  );
  const spans: PackedSpan[] = [];
  let firstRow = 0;
  let firstBlock = 0;
  for (const row of batch.rows) {
    const { startPosition, blockTable } = row;
    const tokenCount = row.tokens.length;
    const blockCount = blocksOf(row, blockTokens);
    tokens.set(row.tokens, firstRow);
    for (let index = 0; index < blockCount; index++) {
      blockIds[firstBlock + index] = blockTable[index] ?? 0;
    }
    for (let offset = 0; offset < tokenCount; offset++) {
      const position = startPosition + offset;
      const block = blockTable[Math.floor(position / blockTokens)] ?? 0;
      positions[firstRow + offset] = position;
      slots[firstRow + offset] = block * blockTokens + (position % blockTokens);
    }
    spans.push({
      firstRow,
      tokenCount,
      startPosition,
      firstBlock,
      logitRows: logitRowsOf(row),
      hiddenRows: hiddenRowsOf(row),
    });
    firstRow += tokenCount;
    firstBlock += blockCount;
  }
  return {
    tokens,
    positions,
    slots,
    blockIds,
    spans,
    logitRowCount: logitRowCount(batch),
  };
}

function endOf(row: BatchRow): number {
  return row.startPosition + row.tokens.length;
}

function blocksOf(row: BatchRow, blockTokens: number): number {
  return Math.ceil(endOf(row) / blockTokens);
}

// Loops over indexes and words made on failure only: a step checks every row, and most are short.
function checkBatch(batch: Batch, limits: BatchLimits): void {
  let tokens = 0;
  for (const row of batch.rows) tokens += row.tokens.length;
  assert(tokens === batch.totalTokens, `rows have ${tokens} tokens, not ${batch.totalTokens}`);
  assert(tokens >= 1, "a batch has at least one token");
  assert(
    tokens <= limits.batchTokensMax,
    `a batch has at most ${limits.batchTokensMax} tokens, not ${tokens}`,
  );
  const sequenceIds = new Set<string>();
  const writtenBlocks = new Set<number>();
  for (const row of batch.rows) {
    if (sequenceIds.has(row.sequenceId)) fail(`${row.sequenceId} has one row in a batch`);
    sequenceIds.add(row.sequenceId);
    checkRow(row, limits);
    const endWritten = blocksOf(row, limits.blockTokens);
    const firstWritten = Math.floor(row.startPosition / limits.blockTokens);
    for (let index = firstWritten; index < endWritten; index++) {
      const block = row.blockTable[index] ?? 0;
      if (writtenBlocks.has(block)) fail(`block ${block} is written for one sequence only`);
      writtenBlocks.add(block);
    }
  }
}

function checkRow(row: BatchRow, limits: BatchLimits): void {
  const { sequenceId, tokens, startPosition, blockTable } = row;
  const end = endOf(row);
  if (tokens.length < 1) fail(`${sequenceId} has a token to compute`);
  const endMax = positionCountOf(limits);
  if (!Number.isInteger(startPosition) || startPosition < 0 || end > endMax) {
    fail(`${sequenceId} lies within ${endMax} positions, not ${startPosition} to ${end}`);
  }
  if (blockTable.length * limits.blockTokens < end) {
    fail(`${sequenceId} has blocks for ${end} tokens, not ${blockTable.length}`);
  }
  if (!areWithin(tokens, tokens.length, limits.vocabularyTokens)) {
    fail(`${sequenceId} has tokens of the vocabulary only`);
  }
  if (!areWithin(blockTable, blocksOf(row, limits.blockTokens), limits.blockCount)) {
    fail(`${sequenceId} has blocks of the pool only`);
  }
}

/** Whether the first `count` numbers are from 0 to below `end`. */
function areWithin(numbers: ArrayLike<number>, count: number, end: number): boolean {
  for (let index = 0; index < count; index++) {
    const value = numbers[index] ?? -1;
    if (value < 0 || value >= end) return false;
  }
  return true;
}

function fail(message: string): never {
  assert(false, message);
}
