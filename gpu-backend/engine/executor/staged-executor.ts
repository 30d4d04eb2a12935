import { assert } from "../../../src/base/assert.ts";
import type { Batch } from "../batch.ts";
import type { KvPrecision, ModelConfig } from "../model/model-config.ts";
import type { StepOutput } from "../step-output.ts";
import type { Executor } from "./executor.ts";
import type { KvPool } from "./kv-pool.ts";
import type { Stage, StageEngines } from "./load-stages.ts";
import { packBatch, type PackedBatch, type PackedSpan } from "./pack-batch.ts";
import { type AttentionSpan, PagedAttention } from "./paged-attention.ts";
import { Region } from "./region.ts";
import type { RowPlaces } from "./row-operations.ts";
import type { TensorPlace } from "./segment-runtime.ts";
import { bufferColumns, type BufferName } from "./stage.ts";

const ELEMENT_BYTES = 4;

/** What stages work on that always work on the same. */
const BUFFERS = {
  embed: ["hidden"],
  norm: ["hidden", "normalized"],
  gate: ["gateAndUp", "activated"],
  attention: ["qkv", "attended"],
  split: ["normalized"],
} as const satisfies Partial<Record<Stage["kind"], readonly BufferName[]>>;

/** What a staged executor is put together from. */
export interface ExecutorParts extends StageEngines {
  readonly config: ModelConfig;
  readonly stages: readonly Stage[];
  readonly weightBytes: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly kvPrecision: KvPrecision;
  readonly batchTokensMax: number;
  /** Is told the kind of each stage before it runs, for whoever measures them. */
  readonly onStage?: ((kind: Stage["kind"]) => void) | undefined;
}

/** Where a step stands. */
interface Step {
  readonly packed: PackedBatch;
  /** Who attends in every layer but the last. */
  readonly spans: readonly AttentionSpan[];
  /** Behind the last layer only rows that something is asked of go on, so there only they attend. */
  readonly lastSpans: readonly AttentionSpan[];
  /** Rows of the buffers by now. */
  rowCount: number;
  /** What was asked for of the last hidden states. */
  hidden: Float32Array;
}

/** Runs a model stage by stage over one set of buffers. */
export class StagedExecutor implements Executor {
  readonly vocabularyTokens: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;
  readonly memory: { readonly weightBytes: number; readonly kvPoolBytes: number };
  readonly kvPool: KvPool;

  readonly #engines: StageEngines;
  readonly #stages: readonly Stage[];
  readonly #onStage: ExecutorParts["onStage"];
  readonly #lastLayer: number;
  readonly #attention: PagedAttention;
  readonly #columns: Readonly<Record<BufferName, number>>;
  /** Those that the stages name, each with room for the largest step, except that logits grow. */
  readonly #buffers: ReadonlyMap<BufferName, Region>;
  readonly #positions: Region;
  readonly #slots: Region;
  readonly #blockIds: Region;
  #state: "idle" | "running" | "closed" = "idle";

  /** Reserves the KV pool and the buffers. */
  constructor(parts: ExecutorParts) {
    const { config, runtime, batchTokensMax } = parts;
    this.vocabularyTokens = config.vocabularyTokens;
    this.contextTokens = config.contextTokens;
    this.blockTokens = parts.blockTokens;
    this.blockCount = parts.blockCount;
    this.batchTokensMax = batchTokensMax;
    this.#engines = parts;
    this.#stages = parts.stages;
    this.#onStage = parts.onStage;
    this.#lastLayer = config.layerCount - 1;
    this.#attention = new PagedAttention(runtime, config, parts);
    this.kvPool = this.#attention.pool;
    this.memory = { weightBytes: parts.weightBytes, kvPoolBytes: this.#attention.kvPoolBytes };
    this.#columns = bufferColumns(config);
    const rows = (columns: number) => new Region(runtime, batchTokensMax * columns * ELEMENT_BYTES);
    this.#buffers = new Map(
      [...namesIn(parts.stages)].map((name) => {
        // Few steps need more than one row of logits a sequence.
        return [name, name === "logits" ? new Region(runtime, 0) : rows(this.#columns[name])];
      }),
    );
    this.#positions = rows(1);
    this.#slots = rows(1);
    this.#blockIds = new Region(runtime, 0);
  }

  async run(batch: Batch): Promise<StepOutput> {
    assert(this.#state === "idle", `one step at a time: the executor is ${this.#state}`);
    const packed = packBatch(batch, this);
    this.#state = "running";
    try {
      return await this.#run(this.#begin(packed));
    } finally {
      this.#state = "idle";
    }
  }

  async close(): Promise<void> {
    assert(this.#state !== "running", "the executor closes between two steps");
    if (this.#state === "closed") return;
    this.#state = "closed";
    await this.#engines.runtime.close();
  }

  #begin(packed: PackedBatch): Step {
    this.#positions.setInts(packed.positions);
    this.#slots.setInts(packed.slots);
    this.#blockIds.setInts(packed.blockIds);
    const logitCount = packed.logitRowCount * this.vocabularyTokens;
    this.#buffer("logits").ensure(logitCount * ELEMENT_BYTES);
    return {
      packed,
      spans: this.#spansOf(packed, (span) => span.tokenCount),
      lastSpans: this.#spansOf(packed, outputRowsOf),
      rowCount: packed.tokens.length,
      hidden: new Float32Array(0),
    };
  }

  async #run(step: Step): Promise<StepOutput> {
    // Neither iterators nor closures below: they would be most of what a step leaves to be collected.
    for (let index = 0; index < this.#stages.length; index++) {
      const stage = this.#stages[index];
      if (stage === undefined) break;
      this.#onStage?.(stage.kind);
      // Most stages are done when they return, and a turn of the microtask queue costs more than some.
      const running = this.#runStage(stage, step);
      if (running !== undefined) await running;
      if (step.rowCount === 0) break;
    }
    const { rowCount, hidden } = step;
    const { vocabularyTokens } = this;
    const values = this.#buffer("logits").floats(rowCount * vocabularyTokens);
    return { rowCount, vocabularyTokens, values, hiddenSize: this.#columns.normalized, hidden };
  }

  #runStage(stage: Stage, step: Step): Promise<void> | void {
    switch (stage.kind) {
      case "graph":
        return this.#runGraph(stage, step.rowCount);
      case "product": {
        const input = this.#buffer(stage.input).address;
        const output = this.#buffer(stage.output).address;
        return this.#engines.product.multiply(stage.matrix, step.rowCount, input, output);
      }
      case "embed": {
        const { tokens } = step.packed;
        const rows = this.#buffer("hidden").floats(tokens.length * this.#columns.hidden);
        return stage.table.lookUp(tokens, rows);
      }
      case "add":
        return this.#engines.rows.add(
          this.#rowPlaces(stage.input, "hidden", step),
          this.#columns.hidden,
        );
      case "norm": {
        const places = this.#rowPlaces("hidden", "normalized", step);
        return this.#engines.rows.normalize(stage.weights, stage.epsilon, places);
      }
      case "gate": {
        const places = this.#rowPlaces("gateAndUp", "activated", step);
        return this.#engines.rows.gate(places, this.#columns.activated);
      }
      case "variant": {
        const addresses = stage.buffers.map((name) => this.#buffer(name).address);
        return stage.run(addresses, step.rowCount);
      }
      case "attention":
        return this.#attend(stage.layer, step);
      case "pick":
        return this.#pick(stage.buffer, step);
      case "split":
        return this.#split(step);
    }
  }

  #runGraph(
    { segment, inputs, outputs }: Extract<Stage, { kind: "graph" }>,
    rowCount: number,
  ): Promise<void> | void {
    const place = (name: BufferName) => this.#place(name, rowCount);
    return segment.run(inputs.map(place), outputs.map(place));
  }

  #attend(layer: number, { spans, lastSpans, rowCount }: Step): void {
    const rows = {
      qkv: this.#buffer("qkv").address,
      attended: this.#buffer("attended").address,
      rowCount,
      positions: this.#positions.address,
      slots: this.#slots.address,
    };
    this.#attention.run(layer, rows, layer === this.#lastLayer ? lastSpans : spans);
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
        blockTable: this.#blockIds.address + span.firstBlock * ELEMENT_BYTES,
      };
      outputRow += tokenCount;
      return [attending];
    });
  }

  /** Moves rows to the front. None moves back, so none is overwritten before it moves. */
  #pick(name: BufferName, step: Step): void {
    const columns = this.#columns[name];
    const values = this.#buffer(name).floats(step.rowCount * columns);
    let row = 0;
    for (const span of step.packed.spans) {
      const end = span.firstRow + span.tokenCount;
      const outputRows = outputRowsOf(span);
      values.copyWithin(row * columns, (end - outputRows) * columns, end * columns);
      row += outputRows;
    }
    step.rowCount = row;
  }

  /** Hidden states are copied, since the rows with logits move into their places. */
  #split(step: Step): void {
    const { spans, logitRowCount } = step.packed;
    if (logitRowCount === step.rowCount) return;
    const columns = this.#columns.normalized;
    const values = this.#buffer("normalized").floats(step.rowCount * columns);
    step.hidden = new Float32Array((step.rowCount - logitRowCount) * columns);
    let from = 0;
    let logitRow = 0;
    let hiddenRow = 0;
    for (const { logitRows, hiddenRows } of spans) {
      const end = from + logitRows + hiddenRows;
      if (hiddenRows > 0) {
        step.hidden.set(values.subarray(from * columns, end * columns), hiddenRow * columns);
      } else {
        values.copyWithin(logitRow * columns, from * columns, end * columns);
      }
      hiddenRow += hiddenRows;
      logitRow += logitRows;
      from = end;
    }
    step.rowCount = logitRowCount;
  }

  #buffer(name: BufferName): Region {
    const buffer = this.#buffers.get(name);
    assert(buffer !== undefined, `some stage has ${name}`);
    return buffer;
  }

  #rowPlaces(input: BufferName, output: BufferName, { rowCount }: Step): RowPlaces {
    const { address } = this.#buffer(input);
    return { input: address, output: this.#buffer(output).address, rowCount };
  }

  #place(name: BufferName, rowCount: number): TensorPlace {
    const { address } = this.#buffer(name);
    return { type: "float32", address, shape: [rowCount, this.#columns[name]] };
  }
}

function namesIn(stages: readonly Stage[]): Set<BufferName> {
  return new Set(stages.flatMap(buffersOf));
}

function buffersOf(stage: Stage): readonly BufferName[] {
  if (stage.kind === "graph") return [...stage.inputs, ...stage.outputs];
  if (stage.kind === "product") return [stage.input, stage.output];
  if (stage.kind === "add") return [stage.input, "hidden"];
  if (stage.kind === "variant") return stage.buffers;
  return stage.kind === "pick" ? [stage.buffer] : BUFFERS[stage.kind];
}

function outputRowsOf({ logitRows, hiddenRows }: PackedSpan): number {
  return logitRows + hiddenRows;
}
