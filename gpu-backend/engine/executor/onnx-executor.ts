import { assert } from "../../../src/base/assert.ts";
import type { Batch } from "../batch.ts";
import { type LoadedModel, loadModel } from "../model/load-model.ts";
import type { Executor, Logits } from "./executor.ts";
import { buildSegment, type Precision } from "./graph.ts";
import { type AttentionSpan, PagedAttention } from "./paged-attention.ts";
import { packBatch, type PackedBatch } from "./pack-batch.ts";
import { PublicRuntime } from "./public-runtime.ts";
import type { Segment, SegmentRuntime, TensorPlace } from "./segment-runtime.ts";

/** What an executor is made of. */
export interface OnnxExecutorOptions {
  /** A directory in Hugging Face's layout, or a model that is loaded already. */
  readonly model: string | LoadedModel;
  readonly precision: Precision;
  /** Tokens of a KV block; a multiple of 16. */
  readonly blockTokens: number;
  readonly blockCount: number;
  /** The largest number of tokens in one step; it sizes the buffers. */
  readonly batchTokensMax: number;
}

/** An executor, and what there is to say about how it came up. */
export interface OnnxExecutor extends Executor {
  readonly precision: Precision;
  /** Tokens that end the output, as the model's files name them. */
  readonly eosTokenIds: readonly number[];
  /** Names the model's weights and configuration; equal revisions compute equal KV. */
  readonly revision: string;
  /** Sentences for the operator, say that the machine made us take a slower way. */
  readonly notes: readonly string[];
}

const FLOAT_BYTES = 4;
const INT_BYTES = 4;

/**
 * Loads a model and makes an executor on ONNX Runtime for WebAssembly, in this very thread: `run`
 * blocks it for the whole step. Throws a `ModelError` when the model cannot be served.
 */
export async function createOnnxExecutor(options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const model = typeof options.model === "string" ? await loadModel(options.model) : options.model;
  const runtime = PublicRuntime.create();
  const weightMax = 127;
  const segments: Segment[] = [];
  let weightBytes = 0;
  for (let index = 0; index <= model.config.layerCount; index++) {
    const graph = buildSegment(model, index, { precision: options.precision, weightMax });
    weightBytes += graph.model.byteLength;
    segments.push(await runtime.load(graph));
  }
  return new SegmentedExecutor({ options, model, runtime, segments, weightBytes, notes: [] });
}

interface Parts {
  readonly options: OnnxExecutorOptions;
  readonly model: LoadedModel;
  readonly runtime: SegmentRuntime;
  readonly segments: readonly Segment[];
  readonly weightBytes: number;
  readonly notes: readonly string[];
}

class SegmentedExecutor implements OnnxExecutor {
  readonly precision: Precision;
  readonly eosTokenIds: readonly number[];
  readonly revision: string;
  readonly notes: readonly string[];
  readonly vocabularyTokens: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;
  readonly memory: { readonly weightBytes: number; readonly kvPoolBytes: number };

  readonly #runtime: SegmentRuntime;
  readonly #segments: readonly Segment[];
  readonly #attention: PagedAttention;
  readonly #hiddenSize: number;
  readonly #querySize: number;
  readonly #qkvSize: number;
  readonly #tokens: Region;
  readonly #positions: Region;
  readonly #slots: Region;
  readonly #blockIds: Region;
  /** A segment reads one and writes the other. */
  readonly #hidden: readonly [Region, Region];
  readonly #qkv: Region;
  readonly #attended: Region;
  readonly #logits: Region;
  #state: "idle" | "running" | "closed" = "idle";

  constructor({ options, model, runtime, segments, weightBytes, notes }: Parts) {
    const { config } = model;
    this.precision = options.precision;
    this.eosTokenIds = model.eosTokenIds;
    this.revision = model.revision;
    this.notes = notes;
    this.vocabularyTokens = config.vocabularyTokens;
    this.contextTokens = config.contextTokens;
    this.blockTokens = options.blockTokens;
    this.blockCount = options.blockCount;
    this.batchTokensMax = options.batchTokensMax;
    this.#runtime = runtime;
    this.#segments = segments;
    this.#attention = new PagedAttention(runtime, config, options);
    this.memory = { weightBytes, kvPoolBytes: this.#attention.kvPoolBytes };
    this.#hiddenSize = config.hiddenSize;
    this.#querySize = config.headCount * config.headDimensions;
    this.#qkvSize = this.#querySize + 2 * config.kvHeadCount * config.headDimensions;
    const rows = options.batchTokensMax;
    const region = (bytes: number) => new Region(runtime, bytes);
    this.#tokens = region(rows * INT_BYTES);
    this.#positions = region(rows * INT_BYTES);
    this.#slots = region(rows * INT_BYTES);
    this.#blockIds = region(0);
    this.#hidden = [region(rows * this.#hiddenSize * 4), region(rows * this.#hiddenSize * 4)];
    this.#qkv = region(rows * this.#qkvSize * FLOAT_BYTES);
    this.#attended = region(rows * this.#querySize * FLOAT_BYTES);
    this.#logits = region(0);
  }

  async run(batch: Batch): Promise<Logits> {
    assert(this.#state === "idle", `one step at a time: the executor is ${this.#state}`);
    const packed = packBatch(batch, this);
    this.#state = "running";
    try {
      return await this.#step(packed);
    } finally {
      this.#state = "idle";
    }
  }

  async close(): Promise<void> {
    assert(this.#state !== "running", "the executor closes between two steps");
    if (this.#state === "closed") return;
    this.#state = "closed";
    await this.#runtime.close();
  }

  async #step(packed: PackedBatch): Promise<Logits> {
    const rowCount = packed.tokens.length;
    this.#tokens.setInts(packed.tokens);
    this.#positions.setInts(packed.positions);
    this.#slots.setInts(packed.slots);
    this.#blockIds.setInts(packed.blockIds);
    const tokens = this.#tokens.place("int32", [rowCount]);
    const qkv = this.#qkv.place("float32", [rowCount, this.#qkvSize]);
    const attended = this.#attended.place("float32", [rowCount, this.#querySize]);
    const lastLayer = this.#segments.length - 2;
    for (let layer = 0; layer <= lastLayer; layer++) {
      const inputs = layer === 0 ? [tokens] : [this.#hiddenAt(layer - 1, rowCount), attended];
      await this.#segments[layer]?.run(inputs, [this.#hiddenAt(layer, rowCount), qkv]);
      this.#attend(layer, packed, layer === lastLayer);
    }
    return this.#head(packed, lastLayer);
  }

  #hiddenAt(layer: number, rowCount: number): TensorPlace {
    return this.#hidden[layer % 2 === 0 ? 0 : 1].place("float32", [rowCount, this.#hiddenSize]);
  }

  /** After the last layer's attention only rows with logits go on, so only they attend, packed. */
  #attend(layer: number, packed: PackedBatch, isLast: boolean): void {
    const spans: AttentionSpan[] = [];
    let outputRow = 0;
    for (const span of packed.spans) {
      const tokenCount = isLast ? span.logitRows : span.tokenCount;
      const skipped = span.tokenCount - tokenCount;
      if (tokenCount > 0) {
        spans.push({
          queryRow: span.firstRow + skipped,
          outputRow,
          tokenCount,
          firstPosition: span.startPosition + skipped,
          blockTable: this.#blockIds.address + span.firstBlock * INT_BYTES,
        });
      }
      outputRow += tokenCount;
    }
    this.#attention.run(
      layer,
      {
        qkv: this.#qkv.address,
        attended: this.#attended.address,
        rowCount: packed.tokens.length,
        positions: this.#positions.address,
        slots: this.#slots.address,
      },
      spans,
    );
  }

  async #head(packed: PackedBatch, lastLayer: number): Promise<Logits> {
    const rowCount = packed.logitRowCount;
    const vocabularyTokens = this.vocabularyTokens;
    if (rowCount === 0) return { rowCount, vocabularyTokens, values: new Float32Array(0) };
    const source = this.#hidden[lastLayer % 2 === 0 ? 0 : 1];
    const target = this.#hidden[lastLayer % 2 === 0 ? 1 : 0];
    let row = 0;
    for (const span of packed.spans) {
      const first = span.firstRow + span.tokenCount - span.logitRows;
      target.copyFloats(source, {
        from: first * this.#hiddenSize,
        to: row * this.#hiddenSize,
        count: span.logitRows * this.#hiddenSize,
      });
      row += span.logitRows;
    }
    this.#logits.ensure(rowCount * vocabularyTokens * FLOAT_BYTES);
    const hidden = target.place("float32", [rowCount, this.#hiddenSize]);
    const attended = this.#attended.place("float32", [rowCount, this.#querySize]);
    const logits = this.#logits.place("float32", [rowCount, vocabularyTokens]);
    await this.#segments[lastLayer + 1]?.run([hidden, attended], [logits]);
    return { rowCount, vocabularyTokens, values: this.#logits.floats(rowCount * vocabularyTokens) };
  }
}

/** A stretch of the runtime's memory; it grows by at least half, so growth is rare and bounded. */
class Region {
  readonly #runtime: SegmentRuntime;
  #address: number;
  #byteLength: number;

  constructor(runtime: SegmentRuntime, byteLength: number) {
    this.#runtime = runtime;
    this.#address = runtime.allocate(byteLength);
    this.#byteLength = byteLength;
  }

  get address(): number {
    return this.#address;
  }

  ensure(byteLength: number): void {
    if (byteLength <= this.#byteLength) return;
    this.#byteLength = Math.max(byteLength, Math.ceil(this.#byteLength * 1.5));
    this.#address = this.#runtime.allocate(this.#byteLength);
  }

  setInts(values: Int32Array): void {
    this.ensure(values.byteLength);
    new Int32Array(this.#runtime.memory.buffer, this.#address, values.length).set(values);
  }

  floats(count: number): Float32Array {
    return new Float32Array(this.#runtime.memory.buffer, this.#address, count);
  }

  copyFloats(source: Region, range: { from: number; to: number; count: number }): void {
    const values = source.floats(range.from + range.count).subarray(range.from);
    this.floats(range.to + range.count).set(values, range.to);
  }

  place(type: TensorPlace["type"], shape: readonly number[]): TensorPlace {
    return { type, address: this.#address, shape };
  }
}
