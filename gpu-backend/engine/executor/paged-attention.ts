import { assert } from "../../../src/base/assert.ts";
import { HEAD_DIMENSIONS_MAX, type KvPrecision, type ModelConfig } from "../model/model-config.ts";
import { rotaryFrequencies } from "../model/rotary-frequencies.ts";
import { instantiateKernel } from "./kernel.ts";
import { KvPool } from "./kv-pool.ts";
import { positionCountOf } from "./pack-batch.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

/** The exports of both attention kernels of `gpu-backend/kernels`; addresses are bytes in their memory. */
interface AttentionKernel {
  configure(heads: number, kvHeads: number, headDimensions: number, blockTokens: number): void;
  /** What a block takes in either pool of a layer. */
  blockByteLength(): number;
  /** What `attend` needs of scratch where a sequence has so many tokens. */
  scratchByteLength(tokens: number): number;
  rotate(rows: number, rowBytes: number, rowCount: number, positions: number, table: number): void;
  store(
    keys: number,
    values: number,
    rowBytes: number,
    rowCount: number,
    slots: number,
    keyPool: number,
    valuePool: number,
  ): void;
  attend(
    queries: number,
    queryRowBytes: number,
    outputs: number,
    outputRowBytes: number,
    rowCount: number,
    firstPosition: number,
    blockTable: number,
    keyPool: number,
    valuePool: number,
    scratch: number,
  ): void;
}

/** Consecutive tokens of one sequence, and where their queries and results lie. */
export interface AttentionSpan {
  /** Row of the first token's query in the packed `qkv`. */
  readonly queryRow: number;
  /** Row of the first token's result in the packed `attended`. */
  readonly outputRow: number;
  readonly tokenCount: number;
  readonly firstPosition: number;
  /** Address of the sequence's block ids, i32. */
  readonly blockTable: number;
}

/** Where the kernel finds the packed rows of a step. */
export interface AttentionRows {
  /** `[rowCount, queries + keys + values]`, f32. Queries and keys are rotated in place. */
  readonly qkv: number;
  /** `[rows, queries]`, f32: the result. */
  readonly attended: number;
  readonly rowCount: number;
  /** Position of each row in its sequence, i32. */
  readonly positions: number;
  /** Slot of each row in the pool: block times `blockTokens` plus its place in the block, i32. */
  readonly slots: number;
}

/** Tokens of a tile in the pool; see `gpu-backend/kernels/pool-layout.ts`. */
const TILE_TOKENS = 16;
const FLOAT_BYTES = 4;

/** Which kernel keeps keys and values how. */
const KERNELS = { f32: "paged-attention", int8: "byte-attention" } as const;

/** How much of a pool there is, and what it holds. */
export interface KvPoolOptions {
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly kvPrecision: KvPrecision;
}

/** The paged KV pool of a model, and attention over it by our own kernel. */
export class PagedAttention {
  readonly kvPoolBytes: number;
  readonly pool: KvPool;
  readonly #kernel: AttentionKernel;
  /** One for each layer. */
  readonly #pools: readonly { readonly keys: number; readonly values: number }[];
  readonly #ropeTable: number;
  readonly #scratch: number;
  readonly #queryBytes: number;
  readonly #kvBytes: number;

  /** Reserves the pool. `blockTokens` must be a multiple of 16. */
  constructor(runtime: SegmentRuntime, config: ModelConfig, limits: KvPoolOptions) {
    const { headCount, kvHeadCount, headDimensions, layerCount, contextTokens } = config;
    assert(
      limits.blockTokens % TILE_TOKENS === 0,
      `blocks are whole tiles of ${TILE_TOKENS} tokens`,
    );
    assert(
      headDimensions <= HEAD_DIMENSIONS_MAX,
      `heads have at most ${HEAD_DIMENSIONS_MAX} dimensions`,
    );
    const name = KERNELS[limits.kvPrecision];
    const kernel = instantiateKernel<AttentionKernel>(name, runtime.memory, [
      "configure",
      "blockByteLength",
      "scratchByteLength",
      "rotate",
      "store",
      "attend",
    ]);
    this.#kernel = kernel;
    kernel.configure(headCount, kvHeadCount, headDimensions, limits.blockTokens);
    this.#queryBytes = headCount * headDimensions * FLOAT_BYTES;
    this.#kvBytes = kvHeadCount * headDimensions * FLOAT_BYTES;

    const poolBytes = limits.blockCount * kernel.blockByteLength();
    this.#pools = Array.from({ length: layerCount }, () => ({
      keys: runtime.allocate(poolBytes),
      values: runtime.allocate(poolBytes),
    }));
    this.kvPoolBytes = 2 * layerCount * poolBytes;
    this.pool = new KvPool(runtime.memory, this.#pools, kernel.blockByteLength());

    const positionCount = positionCountOf({ contextTokens, ...limits });
    const table = rotaryTable(config, positionCount);
    this.#ropeTable = runtime.allocate(table.byteLength);
    new Float32Array(runtime.memory.buffer, this.#ropeTable, table.length).set(table);
    this.#scratch = runtime.allocate(kernel.scratchByteLength(positionCount));
  }

  /** Stores the step's keys and values in the layer's pool, then attends for each span. */
  run(layer: number, rows: AttentionRows, spans: readonly AttentionSpan[]): void {
    const pool = this.#pools[layer];
    assert(pool !== undefined, `the model has no layer ${layer}`);
    const rowBytes = this.#queryBytes + 2 * this.#kvBytes;
    const keys = rows.qkv + this.#queryBytes;
    const values = keys + this.#kvBytes;
    this.#kernel.rotate(rows.qkv, rowBytes, rows.rowCount, rows.positions, this.#ropeTable);
    this.#kernel.store(keys, values, rowBytes, rows.rowCount, rows.slots, pool.keys, pool.values);
    for (const span of spans) {
      this.#kernel.attend(
        rows.qkv + span.queryRow * rowBytes,
        rowBytes,
        rows.attended + span.outputRow * this.#queryBytes,
        this.#queryBytes,
        span.tokenCount,
        span.firstPosition,
        span.blockTable,
        pool.keys,
        pool.values,
        this.#scratch,
      );
    }
  }
}

/** Cosines, then sines of the first positions: one of each for every pair of a head's dimensions. */
export function rotaryTable(config: ModelConfig, positionCount: number): Float32Array {
  const half = config.headDimensions / 2;
  const { frequencies, factor } = rotaryFrequencies(config);
  const table = new Float32Array(positionCount * config.headDimensions);
  for (let pair = 0; pair < half; pair++) {
    const frequency = frequencies[pair] ?? 0;
    for (let position = 0; position < positionCount; position++) {
      const angle = Math.fround(position * frequency);
      table[position * config.headDimensions + pair] = factor * Math.cos(angle);
      table[position * config.headDimensions + half + pair] = factor * Math.sin(angle);
    }
  }
  return table;
}
