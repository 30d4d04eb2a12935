import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../gpu-backend/engine/executor/onnx-executor.ts";
import type { GenerateEvent, GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { createSamplingKernel } from "../../gpu-backend/engine/executor/sampling-kernel.ts";
import { sampleBatch } from "../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import { loadTokenizer, type Tokenizer } from "../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { KvTiers } from "../../gpu-backend/kv-tiers/kv-tiers.ts";
import { MemoryTier } from "../../gpu-backend/kv-tiers/memory-tier.ts";
import { hashBlock } from "../../gpu-backend/hash-block.ts";
import { type Random, seededRandom } from "../../src/base/random.ts";
import { ENGINE_START_MS_MAX } from "../support/running-engine.ts";
import { RUNTIMES_AND_PRECISIONS } from "./engine/executor/runtimes.ts";
import { SumConstraint } from "../support/sum-constraint.ts";

const MODEL = fileURLToPath(new URL("../../gpu-backend/models/sluice-tiny", import.meta.url));
const SEEDS = [1, 2];
const REQUESTS_PER_MIX = 10;
const MIXES_MS_MAX = 120_000;

/** A pool that two or three requests outgrow, and steps that cut every longer prompt into chunks. */
const TIGHT = { blockCount: 11, batchTokensMax: 40 };
const ROOMY = { blockCount: 64, batchTokensMax: 256 };

const SYSTEM_PROMPTS = [
  "You are a pirate. Begin each answer with Captain, and be short and kind to all who ask you.",
  "Answer in one sentence. The user is a small child who likes animals, boats and long stories.",
];
const QUESTIONS = [
  "Tell me a story about a fox named Lily.",
  "Count from 3 to 30.",
  "写一个关于兔子的小故事。",
  "Repeat the text:\nThe wolf walked to the market with his friend Ali every single day of the week.",
];

/** What a request is for: an output, with or without log probabilities, or a look at its prompt. */
type Purpose = Pick<
  GenerateRequest,
  "outputTokensMax" | "logprobsTop" | "promptLogprobsTop" | "pooling"
>;

/** A constraint for every third request with an output; the request's id picks it. */
function constraintsOf(
  executor: OnnxExecutor,
  requests: readonly GenerateRequest[],
): ReadonlyMap<string, SumConstraint> {
  const constrained = requests.filter(
    ({ id, outputTokensMax }) => outputTokensMax > 0 && Number(id.split("-")[1]) % 3 === 0,
  );
  return new Map(
    constrained.map(({ id, stopTokenIds, emittedTokens = [] }) => {
      const { vocabularyTokens } = executor;
      const constraint = new SumConstraint({ vocabularyTokens, stopTokenIds, completeEvery: 5 });
      for (const token of emittedTokens) constraint.accept(token);
      return [id, constraint];
    }),
  );
}

/** Requests of which some share a beginning, greedy and drawn, short and long, of every purpose. */
function aMix(tokenizer: Tokenizer, random: Random): GenerateRequest[] {
  const pick = <T>(values: readonly T[]): T => {
    const value = values[Math.floor(random() * values.length)];
    if (value === undefined) throw new Error("Nothing to pick from");
    return value;
  };
  return Array.from({ length: REQUESTS_PER_MIX }, (_, index): GenerateRequest => {
    const system = pick(SYSTEM_PROMPTS);
    const question = pick(QUESTIONS);
    const text = `<|bos|><|system|>${system}<|end|><|user|>${question}<|end|><|assistant|>`;
    return {
      id: `request-${index}`,
      promptTokens: tokenizer.encodePieces(tokenizer.specialTokens.split(text)),
      ...pick<Purpose>([
        { outputTokensMax: 16 + Math.floor(random() * 70), logprobsTop: 2 },
        { outputTokensMax: 16 + Math.floor(random() * 70) },
        { outputTokensMax: 16, promptLogprobsTop: 1 },
        { outputTokensMax: 0, pooling: "mean" },
      ]),
      outputTokensMin: pick([0, 0, 30]),
      sampling: {
        temperature: pick([0, 0.8, 1.3]),
        topK: pick([0, 20]),
        topP: pick([1, 0.9]),
        minP: pick([0, 0.02]),
        seed: Math.floor(random() * 2 ** 32),
        repetitionPenalty: pick([1, 1.2]),
        frequencyPenalty: pick([0, 0.4]),
        presencePenalty: pick([0, 0.4]),
        logitBias: pick([[], [[index + 300, 2]]]),
      },
      stopTokenIds: [1, 5],
      cacheSalt: pick(["a", "b"]),
      tenant: "tenant",
      priority: 0,
    };
  });
}

/** What the text says already is guessed as often as there is room for it, whether that pays or not. */
const SPECULATION = { looksUp: true, draftTokensMax: 6 };

/** Host memory for all that a pool evicts. */
function aMemoryTier({ kvPool: pool }: OnnxExecutor): KvTiers {
  const memory = new MemoryTier({ bytesMax: 2 ** 26, blockBytes: pool.blockBytes });
  return new KvTiers({ pool, memory, nowMs: () => 0, onArrived: () => {} });
}

function anEngine(
  executor: OnnxExecutor,
  options: Pick<EngineOptions, "sequencesMax" | "prefixCache" | "speculation" | "kvTier">,
) {
  return new Engine({
    blockCount: executor.blockCount,
    blockTokens: executor.blockTokens,
    contextTokens: executor.contextTokens,
    batchTokensMax: executor.batchTokensMax,
    queueMax: REQUESTS_PER_MIX,
    modelRevision: executor.revision,
    hashBlock,
    ...options,
  });
}

/** What one request came to: all that it heard, but for what depends on the cache. */
type Outcome = readonly GenerateEvent[];

function withoutCounts(event: GenerateEvent): GenerateEvent {
  return event.kind === "finished" ? { ...event, cachedTokens: 0 } : event;
}

interface Run {
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly engine: Engine;
  /** Prompts that took more than one step. */
  readonly chunkedPrompts: number;
  readonly rowsMax: number;
}

/**
 * Serves requests to their ends; all of them are there from the beginning. Of what they get alone, if
 * that is given, every third token is guessed, one behind it as well, and then one that is wrong.
 */
async function serve(
  executor: OnnxExecutor,
  engine: Engine,
  requests: readonly GenerateRequest[],
  alone?: ReadonlyMap<string, Outcome>,
): Promise<Run> {
  const outcomes = new Map<string, GenerateEvent[]>(requests.map(({ id }) => [id, []]));
  const hear = (events: readonly GenerateEvent[]) => {
    for (const event of events) {
      outcomes.get(event.id)?.push(withoutCounts(event));
    }
  };
  const promptTokens = new Map(
    requests.map((request) => [request.id, request.promptTokens.length]),
  );
  const promptTokensOf = (id: string) => promptTokens.get(id) ?? 0;
  const constraints = constraintsOf(executor, requests);
  for (const request of requests) hear(engine.submit(request, 0, constraints.get(request.id)));
  const sampler = new Sampler(
    executor.vocabularyTokens,
    createSamplingKernel(executor.vocabularyTokens),
  );
  const chunked = new Set<string>();
  let rowsMax = 0;
  for (;;) {
    for (const [id, outcome] of alone ?? []) {
      const told = tokenIdsOf(outcomes.get(id) ?? []).length;
      const [next, other] = tokenIdsOf(outcome).slice(told);
      if (told % 3 === 0 && next !== undefined) engine.offerDrafts(id, [next, other ?? next, 7, 8]);
    }
    const { batch, events } = engine.plan(0);
    hear(events);
    if (batch === undefined) break;
    hear(engine.commit(batch, sampleBatch(sampler, batch, await executor.run(batch))));
    engine.checkInvariants();
    for (const row of batch.rows) {
      const isWhole = row.startPosition + row.tokens.length >= promptTokensOf(row.sequenceId);
      if (row.startPosition === 0 && !isWhole) chunked.add(row.sequenceId);
    }
    rowsMax = Math.max(rowsMax, batch.rows.length);
  }
  return { outcomes, engine, chunkedPrompts: chunked.size, rowsMax };
}

/** Serves each request in an engine of its own: whole prompts, nothing cached, nobody beside it. */
async function serveAlone(
  executor: OnnxExecutor,
  requests: readonly GenerateRequest[],
): Promise<ReadonlyMap<string, Outcome>> {
  const alone = new Map<string, Outcome>();
  for (const request of requests) {
    const engine = anEngine(executor, { sequencesMax: 1, prefixCache: false });
    const run = await serve(executor, engine, [request]);
    expect(run.chunkedPrompts).toBe(0);
    alone.set(request.id, run.outcomes.get(request.id) ?? []);
  }
  return alone;
}

/** The token events of an outcome, and its end. */
const tokenIdsOf = (outcome: Outcome): number[] =>
  outcome.flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));

/** The request to go on with an output behind its first `emittedCount` tokens. */
function goOnBehind(
  request: GenerateRequest,
  outcome: Outcome,
  emittedCount: number,
): GenerateRequest {
  const { promptLogprobsTop: _, ...asked } = request;
  return { ...asked, emittedTokens: tokenIdsOf(outcome).slice(0, emittedCount) };
}

/** What is to be heard of an outcome by whoever has so many of its tokens. */
function restOf(outcome: Outcome, emittedCount: number): Outcome {
  let tokens = 0;
  return outcome.filter(({ kind }) => {
    if (kind === "token") tokens += 1;
    return kind === "finished" || (kind === "token" && tokens > emittedCount);
  });
}

describe.each(RUNTIMES_AND_PRECISIONS)(
  "with the bundled model in $precision on $runtime",
  (way) => {
    let tokenizer: Tokenizer;
    let tight: OnnxExecutor;
    let roomy: OnnxExecutor;
    beforeAll(async () => {
      const common = { model: MODEL, ...way, blockTokens: 16 };
      tokenizer = await loadTokenizer(MODEL);
      tight = await createOnnxExecutor({ ...common, ...TIGHT });
      roomy = await createOnnxExecutor({ ...common, ...ROOMY });
    }, ENGINE_START_MS_MAX);
    afterAll(async () => {
      await tight.close();
      await roomy.close();
    });

    test(
      "what batched, chunked, hit and preempted requests get equals what each gets alone",
      async () => {
        const happened = {
          rowsMax: 0,
          chunkedPrompts: 0,
          hitTokens: 0,
          preemptions: 0,
          acceptedTokens: 0,
          rejectedTokens: 0,
          loadedTokens: 0,
        };
        const heardKinds = new Set<string>();
        for (const seed of SEEDS) {
          const requests = aMix(tokenizer, seededRandom(seed));
          const alone = await serveAlone(roomy, requests);
          const engine = anEngine(tight, { sequencesMax: 6, prefixCache: true });
          const together = await serve(tight, engine, requests);
          expect(together.outcomes, `seed ${seed}`).toEqual(alone);
          expect(engine.load().usedBlocks).toBe(0);
          const guessing = anEngine(tight, {
            sequencesMax: 6,
            prefixCache: true,
            speculation: SPECULATION,
            kvTier: aMemoryTier(tight),
          });
          const guessed = await serve(tight, guessing, requests, alone);
          expect(guessed.outcomes, `seed ${seed}, guessed and loaded`).toEqual(alone);
          expect(guessing.load().usedBlocks).toBe(0);
          const { draftTokens, acceptedTokens } = guessing.counters.drafts;
          happened.loadedTokens += guessing.counters.prefix.loadedTokens;
          happened.acceptedTokens += acceptedTokens;
          happened.rejectedTokens += draftTokens - acceptedTokens;
          for (const { kind } of [...together.outcomes.values()].flat()) heardKinds.add(kind);
          happened.rowsMax = Math.max(happened.rowsMax, together.rowsMax);
          happened.chunkedPrompts += together.chunkedPrompts;
          happened.hitTokens += engine.counters.prefix.hitTokens;
          happened.preemptions += engine.counters.preemptions;
        }
        // The equality proves nothing of what did not happen.
        expect([...heardKinds].toSorted()).toEqual([
          "embedded",
          "finished",
          "prompt-logprobs",
          "token",
        ]);
        expect(happened.rowsMax).toBeGreaterThan(2);
        expect(Math.min(...Object.values(happened))).toBeGreaterThan(0);
      },
      MIXES_MS_MAX,
    );

    test(
      "outputs that another engine began go on as they would have, behind any of their tokens",
      async () => {
        let lastCuts = 0;
        for (const seed of SEEDS) {
          const random = seededRandom(seed);
          const requests = aMix(tokenizer, random).filter((request) => request.outputTokensMax > 0);
          const alone = await serveAlone(roomy, requests);
          const cuts = requests.map(({ id }) => {
            const tokens = tokenIdsOf(alone.get(id) ?? []).length;
            // The first and the last place count more than all between.
            const draw = random();
            if (draw < 0.2) return Math.min(1, tokens - 1);
            return draw < 0.4 ? tokens - 1 : Math.floor(random() * tokens);
          });
          const going = requests.map((request, index) =>
            goOnBehind(request, alone.get(request.id) ?? [], cuts[index] ?? 0),
          );
          const engine = anEngine(tight, { sequencesMax: 6, prefixCache: true });
          const together = await serve(tight, engine, going);
          for (const [index, { id }] of requests.entries()) {
            const cut = cuts[index] ?? 0;
            const rest = restOf(alone.get(id) ?? [], cut);
            expect(together.outcomes.get(id), `seed ${seed}, ${id} behind ${cut}`).toEqual(rest);
            if (rest.length === 2) lastCuts += 1;
          }
          expect(engine.load().usedBlocks).toBe(0);
        }
        expect(lastCuts).toBeGreaterThan(0);
      },
      MIXES_MS_MAX,
    );
  },
);
