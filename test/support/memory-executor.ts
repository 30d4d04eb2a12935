import type { Batch } from "../../gpu-backend/engine/batch.ts";
import type { Executor } from "../../gpu-backend/engine/executor/executor.ts";
import type { StepOutput } from "../../gpu-backend/engine/step-output.ts";
import { PagedMemoryModel } from "./paged-memory-model.ts";

/** What a test lets happen before a step is computed; to throw is to fail the step. */
export type BeforeRun = (batch: Batch, run: number) => void;

/** Runs steps of the model that is nothing but a paged memory, and fails when a test says so. */
export class MemoryExecutor implements Executor {
  readonly vocabularyTokens = 64;
  readonly contextTokens = 512;
  readonly blockTokens = 4;
  readonly blockCount = 64;
  readonly batchTokensMax = 64;
  readonly memory = { weightBytes: 0, kvPoolBytes: 0 };
  /** Steps asked for so far, failed ones included. */
  runs = 0;
  readonly #model = new PagedMemoryModel(this);
  readonly #beforeRun: BeforeRun;

  constructor(beforeRun: BeforeRun = () => {}) {
    this.#beforeRun = beforeRun;
  }

  async run(batch: Batch): Promise<StepOutput> {
    this.runs += 1;
    this.#beforeRun(batch, this.runs);
    return this.#model.run(batch);
  }

  get kvPool(): PagedMemoryModel {
    return this.#model;
  }

  async close(): Promise<void> {}
}
