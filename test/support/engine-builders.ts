import type { Batch } from "../../gpu-backend/engine/batch.ts";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import { Engine } from "../../gpu-backend/engine/engine.ts";
import type {
  GenerateEvent,
  GenerateRequest,
  Sampling,
} from "../../gpu-backend/engine/generate-request.ts";
import { GREEDY_SAMPLING } from "../../gpu-backend/engine/generate-request.ts";
import type { RowResult } from "../../gpu-backend/engine/row-result.ts";
import type { Scheduling } from "../../gpu-backend/engine/scheduling.ts";
import type { TokenChoice } from "../../gpu-backend/engine/token-choice.ts";
import { TokenHistory } from "../../gpu-backend/engine/token-history.ts";

/** Injective instead of merely collision-resistant: what is hit and what is not is then exact. */
export function hashBlockReadably(
  parent: string,
  tokens: readonly number[] | Int32Array,
  adapter?: string,
): string {
  const name = adapter === undefined ? "" : `@${adapter.length}:${adapter}`;
  return `${parent}/${tokens.join(",")}${name}`;
}

/** Token ids `from`, `from + 1`, … */
export function tokenRange(count: number, from = 1000): number[] {
  return Array.from({ length: count }, (_, index) => from + index);
}

/** Greedy, and without anything that changes logits. */
export function aSampling(overrides: Partial<Sampling> = {}): Sampling {
  return { ...GREEDY_SAMPLING, ...overrides };
}

/** The first choice of an output, greedy. */
export function aTokenChoice(overrides: Partial<TokenChoice> = {}): TokenChoice {
  const sampling = overrides.sampling ?? aSampling();
  return {
    sampling,
    outputIndex: 0,
    history: new TokenHistory(sampling, []),
    forbiddenTokenIds: [],
    ...overrides,
  };
}

export function aGenerateRequest(overrides: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    id: "a",
    promptTokens: tokenRange(8),
    outputTokensMax: 4,
    outputTokensMin: 0,
    sampling: aSampling(),
    tenant: "tenant",
    priority: 0,
    stopTokenIds: [],
    cacheSalt: "salt",
    ...overrides,
  };
}

export function anEngine(overrides: Partial<EngineOptions> = {}): Engine {
  return new Engine({
    blockCount: 64,
    blockTokens: 16,
    contextTokens: 512,
    batchTokensMax: 1024,
    sequencesMax: 8,
    queueMax: 16,
    prefixCache: true,
    modelRevision: "model",
    hashBlock: hashBlockReadably,
    ...overrides,
  });
}

/** What an engine is started with that nobody asked for anything else. */
export function aScheduling(overrides: Partial<Scheduling> = {}): Scheduling {
  return {
    policy: "fcfs",
    chunkedPrefill: true,
    keepsTbt: false,
    kvAdmission: "known",
    kvShares: 1,
    isolation: "borrow",
    ...overrides,
  };
}

/** Results for the rows of a batch: these tokens for those that choose one, in order; no states. */
export function resultsOf(batch: Batch, tokenIds: readonly number[]): RowResult[] {
  const remaining = [...tokenIds];
  return batch.rows.map((row): RowResult => {
    const tokenId = row.choice === undefined ? undefined : remaining.shift();
    return { kind: "computed", ...(tokenId !== undefined && { chosen: [{ tokenId }] }) };
  });
}

/** What one step computed and what became of it. */
export interface Step {
  readonly batch: Batch | undefined;
  /** Tokens computed for each request, in the order of rows. */
  readonly tokensById: Record<string, number>;
  readonly events: GenerateEvent[];
}

/** Plans and commits one step in which every sampled token is `tokenId`. */
export function runStep(engine: Engine, options: { nowMs?: number; tokenId?: number } = {}): Step {
  const { batch, events } = engine.plan(options.nowMs ?? 0);
  engine.checkInvariants();
  if (batch === undefined) return { batch, tokensById: {}, events };
  const tokenIds = batch.rows.map(() => options.tokenId ?? 7);
  const committed = engine.commit(batch, resultsOf(batch, tokenIds));
  engine.checkInvariants();
  const tokensById = Object.fromEntries(
    batch.rows.map((row) => [row.sequenceId, row.tokens.length]),
  );
  return { batch, tokensById, events: [...events, ...committed] };
}

/** Runs steps until nothing is left to do, at most `stepsMax`. */
export function runToEnd(engine: Engine, stepsMax = 1000): Step[] {
  const steps: Step[] = [];
  while (steps.length < stepsMax) {
    const step = runStep(engine);
    if (step.batch === undefined) return steps;
    steps.push(step);
  }
  throw new Error(`Requests are still here after ${stepsMax} steps`);
}
