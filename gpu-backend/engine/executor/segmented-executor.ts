import { assert } from "../../../src/base/assert.ts";
import type { Batch } from "../batch.ts";
import type { ModelConfig } from "../model/model-config.ts";
import type { StepOutput } from "../step-output.ts";
import type { Executor } from "./executor.ts";
import { packBatch, type PackedBatch } from "./pack-batch.ts";
import { type AttentionSpan, PagedAttention } from "./paged-attention.ts";
import { Region } from "./region.ts";
import type { Segment, SegmentRuntime, TensorPlace } from "./segment-runtime.ts";

const FLOAT_BYTES = 4;
const INT_BYTES = 4;

/** What a segmented executor is put together from. */
export interface ExecutorParts {
  readonly config: ModelConfig;
  readonly runtime: SegmentRuntime;
  /** Those of `buildSegment`, in order. */
  readonly segments: readonly Segment[];
  readonly weightBytes: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;
}

/** Runs a model cut into segments, with paged attention between them. */
export class SegmentedExecutor implements Executor {
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

  /** Reserves the KV pool and the buffers of the largest step. */
  constructor(parts: ExecutorParts) {
    const { config, runtime, batchTokensMax } = parts;
    this.vocabularyTokens = config.vocabularyTokens;
    this.contextTokens = config.contextTokens;
    this.blockTokens = parts.blockTokens;
    this.blockCount = parts.blockCount;
    this.batchTokensMax = batchTokensMax;
    this.#runtime = runtime;
    this.#segments = parts.segments;
    this.#attention = new PagedAttention(runtime, config, parts);
    this.memory = { weightBytes: parts.weightBytes, kvPoolBytes: this.#attention.kvPoolBytes };
    this.#hiddenSize = config.hiddenSize;
    this.#querySize = config.headCount * config.headDimensions;
    this.#qkvSize = this.#querySize + 2 * config.kvHeadCount * config.headDimensions;
    const region = (bytes: number) => new Region(runtime, bytes);
    const rows = (bytesPerRow: number) => region(batchTokensMax * bytesPerRow);
    this.#tokens = rows(INT_BYTES);
    this.#positions = rows(INT_BYTES);
    this.#slots = rows(INT_BYTES);
    this.#hidden = [rows(this.#hiddenSize * FLOAT_BYTES), rows(this.#hiddenSize * FLOAT_BYTES)];
    this.#qkv = rows(this.#qkvSize * FLOAT_BYTES);
    this.#attended = rows(this.#querySize * FLOAT_BYTES);
    // How large these get depends on what is asked for; few steps are near the worst case.
    this.#blockIds = region(0);
    this.#logits = region(0);
  }

  async run(batch: Batch): Promise<StepOutput> {
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

  async #step(packed: PackedBatch): Promise<StepOutput> {
    const rowCount = packed.tokens.length;
    this.#tokens.setInts(packed.tokens);
    this.#positions.setInts(packed.positions);
    this.#slots.setInts(packed.slots);
    this.#blockIds.setInts(packed.blockIds);
    const tokens = this.#tokens.place("int32", [rowCount]);
    const qkv = this.#qkv.place("float32", [rowCount, this.#qkvSize]);
    const attended = this.#attended.place("float32", [rowCount, this.#querySize]);
    const lastLayer = this.#segments.length - 3;
    for (let layer = 0; layer <= lastLayer; layer++) {
      const inputs = layer === 0 ? [tokens] : [this.#hiddenAt(layer - 1, rowCount), attended];
      await this.#segments[layer]?.run(inputs, [this.#hiddenAt(layer, rowCount), qkv]);
      this.#attend(layer, packed, layer === lastLayer);
    }
    return this.#finish(packed, lastLayer);
  }

  #hiddenAt(layer: number, rowCount: number): TensorPlace {
    return this.#hidden[layer % 2 === 0 ? 0 : 1].place("float32", [rowCount, this.#hiddenSize]);
  }

  /** Behind the last layer's attention only rows with an output go on, so only they attend, packed. */
  #attend(layer: number, packed: PackedBatch, isLast: boolean): void {
    const spans: AttentionSpan[] = [];
    for (const span of packed.spans) {
      const tokenCount = isLast ? span.outputRows : span.tokenCount;
      if (tokenCount === 0) continue;
      const skipped = span.tokenCount - tokenCount;
      spans.push({
        queryRow: span.firstRow + skipped,
        outputRow: isLast ? span.firstOutputRow : span.firstRow,
        tokenCount,
        firstPosition: span.startPosition + skipped,
        blockTable: this.#blockIds.address + span.firstBlock * INT_BYTES,
      });
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

  /** From the last attention to the output: hidden states of rows that go on, logits of most. */
  async #finish(packed: PackedBatch, lastLayer: number): Promise<StepOutput> {
    const { logitRowCount, hiddenRowCount } = packed;
    const hiddenSize = this.#hiddenSize;
    const rowCount = logitRowCount + hiddenRowCount;
    const source = this.#hidden[lastLayer % 2 === 0 ? 0 : 1];
    const target = this.#hidden[lastLayer % 2 === 0 ? 1 : 0];
    for (const span of packed.spans) {
      target.copyFloats(source, {
        from: (span.firstRow + span.tokenCount - span.outputRows) * hiddenSize,
        to: span.firstOutputRow * hiddenSize,
        count: span.outputRows * hiddenSize,
      });
    }
    if (rowCount > 0) {
      const hidden = target.place("float32", [rowCount, hiddenSize]);
      const attended = this.#attended.place("float32", [rowCount, this.#querySize]);
      const normalized = source.place("float32", [rowCount, hiddenSize]);
      await this.#segments[lastLayer + 1]?.run([hidden, attended], [normalized]);
    }
    return {
      rowCount: logitRowCount,
      vocabularyTokens: this.vocabularyTokens,
      values: await this.#head(source, logitRowCount),
      hiddenSize,
      hidden: source.floats(rowCount * hiddenSize).subarray(logitRowCount * hiddenSize),
    };
  }

  /** The logits of the first rows of normalized hidden states. */
  async #head(normalized: Region, rowCount: number): Promise<Float32Array> {
    if (rowCount === 0) return new Float32Array(0);
    const { vocabularyTokens } = this;
    this.#logits.ensure(rowCount * vocabularyTokens * FLOAT_BYTES);
    const input = normalized.place("float32", [rowCount, this.#hiddenSize]);
    const logits = this.#logits.place("float32", [rowCount, vocabularyTokens]);
    await this.#segments[this.#segments.length - 1]?.run([input], [logits]);
    return this.#logits.floats(rowCount * vocabularyTokens);
  }
}
