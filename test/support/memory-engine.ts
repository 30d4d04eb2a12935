import type { Batch } from "../../gpu-backend/engine/batch.ts";
import type { Engine } from "../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import type { GenerateEvent, GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { sampleBatch } from "../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import type { TokenConstraint } from "../../gpu-backend/engine/token-constraint.ts";
import { anEngine } from "./engine-builders.ts";
import { PagedMemoryModel } from "./paged-memory-model.ts";

const STEPS_MAX = 1000;

/** The real engine around the model that is nothing but a paged memory, step by step. */
export class MemoryEngine {
  readonly vocabularyTokens = 12;
  readonly engine: Engine;
  readonly events: GenerateEvent[] = [];
  readonly #model: PagedMemoryModel;
  readonly #sampler = new Sampler(this.vocabularyTokens);

  constructor(options: Partial<EngineOptions> = {}) {
    const pool = { blockTokens: 4, blockCount: 64, ...options };
    this.engine = anEngine(pool);
    this.#model = new PagedMemoryModel({ ...pool, vocabularyTokens: this.vocabularyTokens });
  }

  submit(request: GenerateRequest, constraint?: TokenConstraint): void {
    this.#note(this.engine.submit(request, 0, constraint));
  }

  cancel(id: string): void {
    this.#note(this.engine.cancel(id));
  }

  /** Runs one step; returns what it computed, `undefined` if there was nothing to do. */
  step(): Batch | undefined {
    const { batch, events } = this.engine.plan(0);
    this.#note(events);
    if (batch === undefined) return undefined;
    const results = sampleBatch(this.#sampler, batch, this.#model.run(batch));
    this.#note(this.engine.commit(batch, results));
    return batch;
  }

  /** Runs steps until all requests have ended. */
  runToEnd(): void {
    for (let steps = 0; steps < STEPS_MAX; steps++) if (this.step() === undefined) return;
    throw new Error(`Requests are still here after ${STEPS_MAX} steps`);
  }

  /** What one request has heard. */
  heardBy(id: string): GenerateEvent[] {
    return this.events.filter((event) => event.id === id);
  }

  tokensOf(id: string): number[] {
    return this.heardBy(id).flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));
  }

  #note(events: readonly GenerateEvent[]): void {
    this.events.push(...events);
    this.engine.checkInvariants();
  }
}
