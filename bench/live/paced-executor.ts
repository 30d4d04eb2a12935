import { setTimeout as sleep } from "node:timers/promises";
import { assert } from "../../src/base/assert.ts";
import { mix32 } from "../../src/base/hash.ts";
import { seededRandom } from "../../src/base/random.ts";
import type { Batch } from "../../gpu-backend/engine/batch.ts";
import { logitRowCount, logitRowsOf } from "../../gpu-backend/engine/batch.ts";
import { workOf } from "../../gpu-backend/engine/batch-work.ts";
import type { Executor } from "../../gpu-backend/engine/executor/executor.ts";
import type {
  OnnxExecutor,
  OnnxExecutorOptions,
} from "../../gpu-backend/engine/executor/onnx-executor.ts";
import type { StepOutput } from "../../gpu-backend/engine/step-output.ts";
import { noisyStepTimeMs } from "../../simulator/step-time.ts";
import { PACED } from "./paced-profile.ts";

/** What it says at a position: text that ends nothing, and that nobody guesses from what was said before. */
function saidToken(position: number, vocabularyTokens: number): number {
  const quarter = Math.floor(vocabularyTokens / 4);
  return quarter + (mix32(position) % (2 * quarter));
}

/** What an engine does between two steps takes less. */
const FOLLOWS_WITHIN_MS = 10;

/** Computes nothing, and takes as long over it as a GPU of its profile would. */
class PacedExecutor implements Executor {
  readonly memory = { weightBytes: 0, kvPoolBytes: 0 };
  /** There is nothing in its blocks that could be kept elsewhere. */
  readonly kvPool = { blockBytes: 0, readBlock: () => undefined, writeBlock: () => undefined };
  readonly #random = seededRandom(process.pid);
  #wokeAtMs = 0;
  #lateMs = 0;

  readonly vocabularyTokens: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly batchTokensMax: number;

  constructor(limits: Omit<Executor, "memory" | "kvPool" | "run" | "close">) {
    this.vocabularyTokens = limits.vocabularyTokens;
    this.contextTokens = limits.contextTokens;
    this.blockTokens = limits.blockTokens;
    this.blockCount = limits.blockCount;
    this.batchTokensMax = limits.batchTokensMax;
  }

  async run(batch: Batch): Promise<StepOutput> {
    const startedAtMs = performance.now();
    const durationMs = noisyStepTimeMs(PACED, workOf(batch), this.#random);
    const { vocabularyTokens } = this;
    const rowCount = logitRowCount(batch);
    const values = new Float32Array(rowCount * vocabularyTokens);
    let logitRow = 0;
    for (const row of batch.rows) {
      const rows = logitRowsOf(row);
      const endPosition = row.startPosition + row.tokens.length;
      for (let index = 0; index < rows; index += 1) {
        const said = saidToken(endPosition - rows + 1 + index, vocabularyTokens);
        values[logitRow * vocabularyTokens + said] = 1;
        logitRow += 1;
      }
    }
    // A GPU is not late because a timer of this machine was: what one step slept too long the next, if it follows
    // at once, sleeps less.
    const isNext = startedAtMs - this.#wokeAtMs < FOLLOWS_WITHIN_MS;
    const dueAtMs = startedAtMs + durationMs - (isNext ? Math.min(this.#lateMs, durationMs) : 0);
    const leftMs = dueAtMs - performance.now();
    if (leftMs > 0) await sleep(leftMs);
    this.#wokeAtMs = performance.now();
    this.#lateMs = Math.max(0, this.#wokeAtMs - dueAtMs);
    return { rowCount, vocabularyTokens, values, hiddenSize: 0, hidden: new Float32Array(0) };
  }

  async close(): Promise<void> {}
}

/** In the place of the production function of this name: the same model's shape, on a paced executor. */
export async function createOnnxExecutor(options: OnnxExecutorOptions): Promise<OnnxExecutor> {
  const { model, blockTokens, blockCount, batchTokensMax, precision } = options;
  assert(typeof model !== "string", "the engine thread has loaded its model");
  const { vocabularyTokens, contextTokens } = model.config;
  const limits = { vocabularyTokens, contextTokens, blockTokens, blockCount, batchTokensMax };
  return Object.assign(new PacedExecutor(limits), {
    precision,
    revision: "paced",
    eosTokenIds: model.eosTokenIds,
    runtime: "paced",
    notes: [],
    memoryPlan: {
      weightBytes: 0,
      embeddingBytes: 0,
      runtimeCopyBytes: 0,
      kvPoolBytes: 0,
      kvPoolTokens: blockCount * blockTokens,
      scratchBytes: 0,
    },
  });
}
