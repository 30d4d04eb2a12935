import { assert } from "../../../src/base/assert.ts";
import type { Batch } from "../batch.ts";
import type { ModelConfig } from "../model/model-config.ts";
import type { Executor, Logits } from "./executor.ts";
import { packBatch, type PackedBatch, type PackedSpan } from "./pack-batch.ts";
import { type AttentionRows, type AttentionSpan, PagedAttention } from "./paged-attention.ts";
import { Region } from "./region.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";

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
  /** By layer, even and odd: a segment reads one and writes the other. */
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
    const hiddenAt = (layer: number) =>
      this.#hiddenOf(layer).place("float32", [rowCount, this.#hiddenSize]);

    const lastLayer = this.#segments.length - 2;
    const spans = this.#spansOf(packed, (span) => span.tokenCount);
    // Behind the last layer only rows with logits go on, so there only they need to attend.
    const lastSpans = this.#spansOf(packed, (span) => span.logitRows);
    for (let layer = 0; layer <= lastLayer; layer++) {
      const inputs = layer === 0 ? [tokens] : [hiddenAt(layer - 1), attended];
      await this.#segmentAt(layer).run(inputs, [hiddenAt(layer), qkv]);
      this.#attend(layer, rowCount, layer === lastLayer ? lastSpans : spans);
    }
    return this.#head(packed, lastLayer);
  }

  #segmentAt(index: number): Segment {
    const segment = this.#segments[index];
    assert(segment !== undefined, `the model has no segment ${index}`);
    return segment;
  }

  #hiddenOf(layer: number): Region {
    return this.#hidden[layer % 2 === 0 ? 0 : 1];
  }

  /** What attends of each sequence: its last tokens, as many as asked for, with packed results. */
  #spansOf(packed: PackedBatch, countOf: (span: PackedSpan) => number): AttentionSpan[] {
    let outputRow = 0;
    return packed.spans.flatMap((span) => {
      const tokenCount = countOf(span);
      if (tokenCount === 0) return [];
      const skipped = span.tokenCount - tokenCount;
      const attending: AttentionSpan = {
        queryRow: span.firstRow + skipped,
        outputRow,
        tokenCount,
        firstPosition: span.startPosition + skipped,
        blockTable: this.#blockIds.address + span.firstBlock * INT_BYTES,
      };
      outputRow += tokenCount;
      return [attending];
    });
  }

  #attend(layer: number, rowCount: number, spans: readonly AttentionSpan[]): void {
    const rows: AttentionRows = {
      qkv: this.#qkv.address,
      attended: this.#attended.address,
      rowCount,
      positions: this.#positions.address,
      slots: this.#slots.address,
    };
    this.#attention.run(layer, rows, spans);
  }

  async #head(packed: PackedBatch, lastLayer: number): Promise<Logits> {
    const rowCount = packed.logitRowCount;
    const { vocabularyTokens } = this;
    if (rowCount === 0) return { rowCount, vocabularyTokens, values: new Float32Array(0) };
    const picked = this.#hiddenOf(lastLayer + 1);
    let row = 0;
    for (const span of packed.spans) {
      const firstRow = span.firstRow + span.tokenCount - span.logitRows;
      picked.copyFloats(this.#hiddenOf(lastLayer), {
        from: firstRow * this.#hiddenSize,
        to: row * this.#hiddenSize,
        count: span.logitRows * this.#hiddenSize,
      });
      row += span.logitRows;
    }
    const logitCount = rowCount * vocabularyTokens;
    this.#logits.ensure(logitCount * FLOAT_BYTES);
    const hidden = picked.place("float32", [rowCount, this.#hiddenSize]);
    const attended = this.#attended.place("float32", [rowCount, this.#querySize]);
    const logits = this.#logits.place("float32", [rowCount, vocabularyTokens]);
    await this.#segmentAt(lastLayer + 1).run([hidden, attended], [logits]);
    return { rowCount, vocabularyTokens, values: this.#logits.floats(logitCount) };
  }
}
