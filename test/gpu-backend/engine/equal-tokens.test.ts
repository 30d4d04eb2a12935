import assert from "node:assert/strict";
import { expect, test } from "vitest";
import type { Batch } from "../../../gpu-backend/engine/batch.ts";
import type { EngineOptions } from "../../../gpu-backend/engine/engine.ts";
import { Engine } from "../../../gpu-backend/engine/engine.ts";
import type {
  GenerateEvent,
  GenerateRequest,
} from "../../../gpu-backend/engine/generate-request.ts";
import { sampleBatch } from "../../../gpu-backend/engine/sample-batch.ts";
import type { CompareUrgency } from "../../../gpu-backend/engine/scheduler.ts";
import { compareArrival } from "../../../gpu-backend/engine/scheduler.ts";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { aGenerateRequest, anEngine, hashBlockReadably } from "../../support/engine-builders.ts";
import { generateAlone, PagedMemoryModel } from "../../support/paged-memory-model.ts";

const VOCABULARY_TOKENS = 12;
const STOP_TOKEN = 0;
const SEEDS = 400;
const REQUESTS_PER_MIX = 14;
const STEPS_MAX = 3000;

const ORDERS: readonly CompareUrgency[] = [
  compareArrival,
  (a, b) => b.arrivalNumber - a.arrivalNumber,
  (a, b) => a.uncomputedTokens - b.uncomputedTokens || a.arrivalNumber - b.arrivalNumber,
];

/** One random engine that serves random requests through the paged memory until all have ended. */
class Mix {
  readonly #random: Random;
  readonly #options: EngineOptions;
  readonly #engine: Engine;
  readonly #model: PagedMemoryModel;
  readonly #systemPrompts: readonly number[][];
  readonly requests = new Map<string, GenerateRequest>();
  readonly events: GenerateEvent[] = [];
  readonly #failureRatio: number;
  readonly #cancelRatio: number;
  #nowMs = 0;
  rollbacks = 0;
  /** The largest number of rows that one step computed. */
  rowsMax = 0;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    const sequencesMax = 1 + this.#upTo(6);
    this.#options = {
      blockTokens: 1 + this.#upTo(4),
      blockCount: 5 + this.#upTo(16),
      contextTokens: 14 + this.#upTo(30),
      sequencesMax,
      batchTokensMax: sequencesMax + this.#upTo(12),
      queueMax: this.#upTo(12),
      prefixCache: this.#random() < 0.7,
      modelRevision: "paged-memory",
      hashBlock: hashBlockReadably,
      compareUrgency: ORDERS[seed % ORDERS.length] ?? compareArrival,
    };
    this.#engine = new Engine(this.#options);
    this.#model = new PagedMemoryModel({
      ...this.#options,
      vocabularyTokens: VOCABULARY_TOKENS,
    });
    this.#systemPrompts = [3, 6, 9].map((length) => this.#tokens(length));
    this.#failureRatio = this.#random() < 0.5 ? 0.25 : 0;
    this.#cancelRatio = this.#random() < 0.5 ? 0.15 : 0;
  }

  get engine(): Engine {
    return this.#engine;
  }

  /** Known tokens at which every sequence ends. */
  get sequenceTokensMax(): number {
    const { contextTokens, blockCount, blockTokens } = this.#options;
    return Math.min(contextTokens, blockCount * blockTokens);
  }

  runToEnd(): void {
    for (let step = 0; step < STEPS_MAX; step++) {
      this.#nowMs += 1;
      this.#disturb();
      const plan = this.#engine.plan(this.#nowMs);
      this.#note(plan.events);
      if (plan.batch !== undefined) this.#execute(plan.batch);
      else if (this.requests.size === REQUESTS_PER_MIX) return;
    }
    throw new Error(`Requests are still here after ${STEPS_MAX} steps`);
  }

  #execute(batch: Batch): void {
    this.rowsMax = Math.max(this.rowsMax, batch.rows.length);
    this.#disturb();
    if (this.#random() < this.#failureRatio) {
      this.rollbacks += 1;
      this.#model.runAndFail(batch, this.#random);
      this.#note(this.#engine.rollback(batch));
      return;
    }
    const sampled = sampleBatch(batch, this.#model.run(batch), VOCABULARY_TOKENS);
    this.#note(this.#engine.commit(batch, sampled.tokens));
  }

  /** Lets requests come, go and fail, between steps as well as during one. */
  #disturb(): void {
    while (this.requests.size < REQUESTS_PER_MIX && this.#random() < 0.3) {
      const request = this.#aRequest(`r${this.requests.size}`);
      this.requests.set(request.id, request);
      this.#note(this.#engine.submit(request, this.#nowMs));
    }
    if (this.#random() >= this.#cancelRatio) return;
    const id = `r${this.#upTo(REQUESTS_PER_MIX)}`;
    const isFailure = this.#random() < 0.3;
    this.#note(isFailure ? this.#engine.fail(id, "Poisoned") : this.#engine.cancel(id));
  }

  #note(events: GenerateEvent[]): void {
    this.events.push(...events);
    this.#engine.checkInvariants();
  }

  #aRequest(id: string): GenerateRequest {
    const systemPrompt = this.#systemPrompts[this.#upTo(4)] ?? [];
    return {
      id,
      promptTokens: [...systemPrompt, ...this.#tokens(1 + this.#upTo(8))],
      outputTokensMax: 1 + this.#upTo(14),
      sampling: {
        temperature: this.#random() < 0.5 ? 0 : 0.5 + this.#random(),
        topK: this.#random() < 0.5 ? 0 : 4,
        topP: this.#random() < 0.5 ? 1 : 0.8,
        seed: this.#upTo(1000),
      },
      stopTokenIds: this.#random() < 0.5 ? [STOP_TOKEN] : [],
      cacheSalt: `salt-${this.#upTo(2)}`,
      ...(this.#random() < 0.2 ? { firstTokenDeadlineAtMs: this.#nowMs + this.#upTo(20) } : {}),
    };
  }

  #tokens(count: number): number[] {
    return Array.from({ length: count }, () => this.#upTo(VOCABULARY_TOKENS));
  }

  /** An integer in 0 … limit - 1. */
  #upTo(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

/** Compares what one request got with what it gets alone. Returns its terminal event. */
function checkRequest(mix: Mix, request: GenerateRequest): GenerateEvent {
  const events = mix.events.filter((event) => event.id === request.id);
  const tokens = events.flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));
  const end = events.at(-1);
  assert(end !== undefined && end.kind !== "token", "A request ends");
  assert.equal(events.length, tokens.length + 1, "It ends once, and nothing comes after");
  const alone = generateAlone(request, {
    vocabularyTokens: VOCABULARY_TOKENS,
    sequenceTokensMax: mix.sequenceTokensMax,
  });
  if (end.kind === "refused") assert.equal(tokens.length, 0, "A refused request gets nothing");
  if (end.kind === "finished") {
    assert.equal(end.outputTokens, tokens.length);
    assert.equal(end.promptTokens, request.promptTokens.length);
    assert(end.cachedTokens < end.promptTokens, "The last prompt token is always computed");
  }
  if (end.kind === "finished" && end.reason !== "cancelled") {
    assert.deepEqual({ tokens, reason: end.reason }, alone);
  } else {
    assert.deepEqual(tokens, alone.tokens.slice(0, tokens.length));
  }
  return end;
}

test("a request gets the tokens it gets alone, whatever is batched, chunked, hit, preempted, cancelled or failed around it", () => {
  const seen = { rollbacks: 0, hits: 0, preemptions: 0, resumedHits: 0, batched: 0 };
  const ends: Record<string, number> = {};
  for (let seed = 1; seed <= SEEDS; seed++) {
    const mix = new Mix(seed);
    try {
      mix.runToEnd();
      for (const request of mix.requests.values()) {
        const end = checkRequest(mix, request);
        const name = "reason" in end ? `${end.kind} ${end.reason}` : end.kind;
        ends[name] = (ends[name] ?? 0) + 1;
      }
      expect(mix.engine.load()).toMatchObject({
        queuedRequests: 0,
        runningRequests: 0,
        usedBlocks: 0,
        queuedUncachedTokens: 0,
      });
      expect(mix.engine.resetPrefixCache()).toBe(true);
    } catch (error) {
      throw new Error(`Seed ${seed} fails`, { cause: error });
    }
    const { counters } = mix.engine;
    seen.rollbacks += mix.rollbacks;
    seen.hits += counters.prefix.hitTokens;
    seen.resumedHits += counters.prefix.resumedHitTokens;
    seen.preemptions += counters.preemptions;
    if (mix.rowsMax > 1) seen.batched += 1;
  }
  // What the seeds do not provoke they do not prove.
  expect(seen.batched).toBeGreaterThan(200);
  expect(seen.rollbacks).toBeGreaterThan(1000);
  expect(seen.hits).toBeGreaterThan(1000);
  expect(seen.preemptions).toBeGreaterThan(100);
  expect(seen.resumedHits).toBeGreaterThan(100);
  const rarest = ["finished length", "finished stop", "finished cancelled", "failed"].map(
    (end) => ends[end] ?? 0,
  );
  expect(Math.min(...rarest)).toBeGreaterThan(100);
});

/** Serves requests that arrive together. Returns the tokens of each, and the engine. */
function serve(requests: readonly GenerateRequest[], options: Partial<EngineOptions>) {
  const pool = { blockTokens: 4, blockCount: 64, vocabularyTokens: VOCABULARY_TOKENS, ...options };
  const engine = anEngine(pool);
  const model = new PagedMemoryModel(pool);
  const tokensById = new Map(requests.map(({ id }) => [id, [] as number[]]));
  const events = requests.flatMap((request) => engine.submit(request, 0));
  for (let { batch } = engine.plan(0); batch !== undefined; { batch } = engine.plan(0)) {
    const { tokens } = sampleBatch(batch, model.run(batch), VOCABULARY_TOKENS);
    events.push(...engine.commit(batch, tokens));
  }
  for (const event of events) {
    if (event.kind === "token") tokensById.get(event.id)?.push(event.tokenId);
  }
  return { engine, tokensById };
}

const sampling = { temperature: 0.8, topK: 0, topP: 0.95, seed: 11 };
const promptOf = (seed: number, length: number) =>
  Array.from({ length }, (_, index) => (index * seed + seed) % VOCABULARY_TOKENS);
const long = aGenerateRequest({
  id: "long",
  promptTokens: promptOf(5, 23),
  outputTokensMax: 20,
  sampling,
});
const alone = serve([long], {}).tokensById.get("long");

test("a batched request gets the tokens it gets alone", () => {
  const others = [1, 2, 3].map((seed) =>
    aGenerateRequest({ id: `other ${seed}`, promptTokens: promptOf(seed, 9 + seed), sampling }),
  );
  const { engine, tokensById } = serve([...others, long], {});
  expect(tokensById.get("long")).toEqual(alone);
  expect(engine.counters.finished.length).toBe(4);
});

test("a prompt in chunks yields the tokens of a whole one", () => {
  for (const batchTokensMax of [1, 3, 4, 7]) {
    const { tokensById } = serve([long], { batchTokensMax, sequencesMax: 1 });
    expect(tokensById.get("long")).toEqual(alone);
  }
});

test("a prefix hit yields the tokens of a miss", () => {
  const first = { ...long, id: "first", outputTokensMax: 1 };
  const { engine, tokensById } = serve([first, long], { sequencesMax: 1 });
  expect(engine.counters.prefix.hitTokens).toBe(20);
  expect(tokensById.get("long")).toEqual(alone);
});

test("a preempted request gets the tokens of an uninterrupted one", () => {
  const rival = { ...long, id: "rival", promptTokens: promptOf(7, 23), outputTokensMax: 30 };
  for (const prefixCache of [true, false]) {
    const { engine, tokensById } = serve([rival, long], { blockCount: 14, prefixCache });
    expect(engine.counters.preemptions).toBeGreaterThan(0);
    expect(tokensById.get("long")).toEqual(alone);
  }
});
