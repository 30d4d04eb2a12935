import { EventEmitter, once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../../gpu-backend/engine/engine-options.ts";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import { Sequence } from "../../../gpu-backend/engine/sequence.ts";
import { sampleBatch } from "../../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../../gpu-backend/engine/sampler.ts";
import { hashBlock } from "../../../gpu-backend/hash-block.ts";
import { DiskTier } from "../../../gpu-backend/kv-tiers/disk-tier.ts";
import { KvTiers } from "../../../gpu-backend/kv-tiers/kv-tiers.ts";
import { MemoryTier } from "../../../gpu-backend/kv-tiers/memory-tier.ts";
import { aGenerateRequest, tokenRange } from "../../support/engine-builders.ts";
import { eventually } from "../../support/eventually.ts";
import { generateAlone, PagedMemoryModel } from "../../support/paged-memory-model.ts";

const VOCABULARY_TOKENS = 64;
const POOL = { blockTokens: 4, blockCount: 12, vocabularyTokens: VOCABULARY_TOKENS };
const BLOCK_BYTES = 16;
const CONTEXT_TOKENS = 48;

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-kv-"));
  // After what is still written when its test ends, by the hooks of the replicas.
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface ReplicaOptions extends Partial<EngineOptions> {
  readonly memoryBlocks?: number;
  readonly folder?: string;
  readonly diskBlocks?: number;
}

/** One life of a replica: pool, tiers and engine, around the model that is nothing but a paged memory. */
function aReplica(options: ReplicaOptions = {}) {
  const { memoryBlocks = 40, folder, diskBlocks = 100, ...others } = options;
  const pool = new PagedMemoryModel(POOL);
  const memory = new MemoryTier({
    bytesMax: memoryBlocks * BLOCK_BYTES,
    blockBytes: BLOCK_BYTES,
  });
  const disk =
    folder === undefined
      ? undefined
      : new DiskTier({
          folder,
          bytesMax: diskBlocks * (BLOCK_BYTES + 12),
          blockBytes: BLOCK_BYTES,
          onFault: (fault) => {
            throw new Error(fault);
          },
        });
  onTestFinished(async () => disk?.whenIdle());
  const arrived: string[] = [];
  const tiers = new KvTiers({
    pool,
    memory,
    disk,
    nowMs: () => performance.now(),
    onArrived: (id) => {
      arrived.push(id);
      engine.kvArrived(id);
    },
  });
  const engine: Engine = new Engine({
    ...POOL,
    contextTokens: CONTEXT_TOKENS,
    batchTokensMax: 64,
    sequencesMax: 4,
    queueMax: 16,
    prefixCache: true,
    modelRevision: "model",
    hashBlock,
    kvTier: tiers,
    ...others,
  });
  const sampler = new Sampler(VOCABULARY_TOKENS);
  /** Serves one request to its end, and says what it got and how much of its prompt was found. */
  const serve = async (overrides: Partial<GenerateRequest>) => {
    const request = aGenerateRequest(overrides);
    const events = engine.submit(request, 0);
    await eventually("the request has ended", () => {
      const { batch } = engine.plan(0);
      if (batch !== undefined) {
        events.push(...engine.commit(batch, sampleBatch(sampler, batch, pool.run(batch))));
      }
      engine.checkInvariants();
      memory.checkInvariants();
      disk?.checkInvariants();
      return events.some(({ kind }) => kind === "finished" || kind === "refused");
    });
    const tokens = events.flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));
    expect(tokens).toEqual(alone(request));
    const end = events.at(-1);
    return end?.kind === "finished" ? end.cachedTokens : undefined;
  };
  return { engine, pool, memory, disk, tiers, arrived, serve };
}

function alone(request: GenerateRequest): number[] {
  const { chosen } = generateAlone(request, {
    vocabularyTokens: VOCABULARY_TOKENS,
    sequenceTokensMax: CONTEXT_TOKENS,
  });
  return chosen.map(({ tokenId }) => tokenId);
}

const A = tokenRange(33, 100);
/** Fills the pool, so that whatever it holds is evicted. */
const OTHERS = tokenRange(40, 500);

/** What tiers that have measured nothing believe. */
function believedMs(blockBytes: number, blocks: { readonly near: number; readonly far: number }) {
  return new KvTiers({
    pool: { blockBytes, readBlock: () => undefined, writeBlock: () => undefined },
    memory: new MemoryTier({ bytesMax: blockBytes, blockBytes }),
    nowMs: () => 0,
    onArrived: () => undefined,
  }).predictMs(blocks);
}

test("larger blocks are believed to take longer to load, and a disk longer than memory", () => {
  expect(believedMs(1e6, { near: 4, far: 0 })).toBeCloseTo(1.2);
  // Each of them is copied from memory as well.
  expect(believedMs(1e6, { near: 0, far: 4 })).toBeCloseTo(5.2);
  expect(believedMs(1e4, { near: 0, far: 4 })).toBeCloseTo(1.636);
});

describe("what the pool evicts", () => {
  test("comes back from memory, and the tokens are the same", async () => {
    const replica = aReplica();
    expect(await replica.serve({ promptTokens: A })).toBe(0);
    await replica.serve({ promptTokens: OTHERS });
    expect(await replica.serve({ promptTokens: A })).toBe(32);
    expect(replica.engine.counters.prefix.loadedTokens).toBeGreaterThan(0);
    expect(replica.tiers.statistics.failedBlocks).toBe(0);
  });

  test("is gone where there is no room below", async () => {
    const replica = aReplica({ memoryBlocks: 0 });
    await replica.serve({ promptTokens: A });
    await replica.serve({ promptTokens: OTHERS });
    expect(await replica.serve({ promptTokens: A })).toBeLessThan(12);
    expect(replica.engine.counters.prefix.loadedTokens).toBe(0);
  });

  test("of a chain that memory has not all of, the beginning is there", async () => {
    const replica = aReplica({ memoryBlocks: 5 });
    await replica.serve({ promptTokens: A });
    await replica.serve({ promptTokens: OTHERS, outputTokensMax: 1 });
    await replica.serve({ promptTokens: tokenRange(8, 900), outputTokensMax: 1 });
    const cachedTokens = await replica.serve({ promptTokens: A });
    expect(cachedTokens).toBeGreaterThan(4);
    expect(cachedTokens).toBeLessThan(32);
  });

  test("is not displaced by what its own loading evicts", async () => {
    const replica = aReplica({ memoryBlocks: 10 });
    for (let round = 0; round < 4; round += 1) {
      const expected = round === 0 ? 0 : 32;
      expect(await replica.serve({ promptTokens: A, outputTokensMax: 1 })).toBe(expected);
      await replica.serve({ promptTokens: OTHERS, outputTokensMax: 1 });
    }
  });

  test("is found by its own salt, tenant and adapter alone", async () => {
    const replica = aReplica();
    await replica.serve({ promptTokens: A });
    await replica.serve({ promptTokens: OTHERS });
    expect(await replica.serve({ promptTokens: A, cacheSalt: "another" })).toBe(0);
    expect(await replica.serve({ promptTokens: A, tenant: "another" })).toBe(0);
    expect(await replica.serve({ promptTokens: A, adapter: "another" })).toBe(0);
    expect(await replica.serve({ promptTokens: A })).toBe(32);
  });

  test("is not read by whoever wants to be told about each token of the prompt", async () => {
    const replica = aReplica();
    await replica.serve({ promptTokens: A });
    await replica.serve({ promptTokens: OTHERS });
    const { loadedTokens } = replica.engine.counters.prefix;
    expect(await replica.serve({ promptTokens: A, promptLogprobsTop: 1 })).toBe(0);
    expect(replica.engine.counters.prefix.loadedTokens).toBe(loadedTokens);
  });

  test("is forgotten with the prefix cache", async () => {
    const replica = aReplica();
    await replica.serve({ promptTokens: A });
    await replica.serve({ promptTokens: OTHERS });
    expect(replica.engine.resetPrefixCache()).toBe(true);
    expect(await replica.serve({ promptTokens: A })).toBe(0);
    expect(replica.tiers.statistics.loadedBlocks).toBe(0);
  });
});

const stepMs = (tokenMs: number) => ({
  predictMs: ({ tokens }: { readonly tokens: number }) => 1 + tokenMs * tokens,
});

describe("a block is loaded", () => {
  test.each([
    [1, 32],
    [1e-7, 0],
  ])("where a token takes %d ms to compute: %d tokens", async (tokenMs, expected) => {
    const replica = aReplica({ forecast: stepMs(tokenMs) });
    await replica.serve({ promptTokens: A, outputTokensMax: 1 });
    // All of the pool, so that nothing is hit there.
    await replica.serve({ promptTokens: tokenRange(47, 500), outputTokensMax: 1 });
    expect(await replica.serve({ promptTokens: A, outputTokensMax: 1 })).toBe(expected);
  });
});

describe("a replica that is started again", () => {
  test("finds on disk what it had computed, and waits for it", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    expect(await after.serve({ promptTokens: A })).toBe(32);
    expect(after.arrived).toEqual(["a"]);
    expect(after.engine.counters.prefix.loadedTokens).toBe(32);
  });

  test("finds only its own tenant's", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    expect(await after.serve({ promptTokens: A, cacheSalt: "another" })).toBe(0);
    expect(await after.serve({ promptTokens: A, tenant: "another" })).toBe(0);
    expect(await aReplica({ folder, modelRevision: "another" }).serve({ promptTokens: A })).toBe(0);
  });

  test("lets nobody wait for what it may not read", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    expect(await after.serve({ promptTokens: A, promptLogprobsTop: 1 })).toBe(0);
    expect(after.arrived).toEqual([]);
  });

  test("computes what is not sound any more, and all behind it", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A, outputTokensMax: 1 });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    const { chain } = chainOf(A);
    writeFileSync(join(folder, chain[4] ?? ""), new Uint8Array(BLOCK_BYTES + 12));
    expect(await after.serve({ promptTokens: A })).toBe(16);
    expect(after.tiers.statistics.failedBlocks).toBe(1);
  });

  test("keeps the beginning of a chain that the disk has no room for", async () => {
    const folder = aFolder();
    const before = aReplica({ folder, diskBlocks: 3 });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    expect(readdirSync(folder)).toHaveLength(3);
    expect(await aReplica({ folder }).serve({ promptTokens: A })).toBe(12);
  });

  test("keeps on disk what was used last, though it was written first", async () => {
    const folder = aFolder();
    const { disk, tiers } = aReplica({ folder, diskBlocks: 2 });
    for (const hash of ["aaaaaaaa", "bbbbbbbb", "aaaaaaaa", "cccccccc"]) {
      tiers.released([{ hash, block: 0 }]);
      // oxlint-disable-next-line no-await-in-loop -- in this order
      await disk?.whenIdle();
    }
    expect(readdirSync(folder).toSorted()).toEqual(["aaaaaaaa", "cccccccc"]);
  });

  test("reads no more than memory holds", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    expect(await aReplica({ folder, memoryBlocks: 2 }).serve({ promptTokens: A })).toBe(8);
  });

  test("lets nobody wait for a disk that does not answer", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    if (after.disk === undefined) throw new Error("There is a disk");
    const answers = new EventEmitter();
    vi.spyOn(after.disk, "get").mockReturnValue(once(answers, "late").then(() => undefined));
    expect(await after.serve({ promptTokens: A })).toBe(0);
    expect(after.arrived).toEqual(["a"]);
    answers.emit("late");
    await eventually("what came late is counted", () => after.tiers.statistics.failedBlocks > 0);
    expect(after.arrived).toEqual(["a"]);
  });

  test("reads no further for a request that waits no more", async () => {
    const folder = aFolder();
    const promptTokens = tokenRange(47, 100);
    const after = aReplica({ folder });
    if (after.disk === undefined) throw new Error("There is a disk");
    const answers = new EventEmitter();
    const late = once(answers, "late").then(() => new Uint8Array(BLOCK_BYTES));
    const get = vi.spyOn(after.disk, "get").mockReturnValue(late);
    after.tiers.fetch("a", chainOf(promptTokens).chain);
    await eventually("nobody waits any more", () => after.arrived.length > 0);
    answers.emit("late");
    await eventually("what came late is kept", () => after.memory.byteLength > 0);
    expect(get).toHaveBeenCalledTimes(8);
  });

  test("reads nothing behind what is not sound", async () => {
    const folder = aFolder();
    const promptTokens = tokenRange(47, 100);
    const before = aReplica({ folder });
    await before.serve({ promptTokens, outputTokensMax: 1 });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    if (after.disk === undefined) throw new Error("There is a disk");
    const { chain } = chainOf(promptTokens);
    writeFileSync(join(folder, chain[2] ?? ""), "spoilt");
    const get = vi.spyOn(after.disk, "get");
    expect(await after.serve({ promptTokens, outputTokensMax: 1 })).toBe(8);
    // Of eleven, those that are read at once.
    expect(get).toHaveBeenCalledTimes(8);
  });

  test("a request that is cancelled while it waits ends at once", async () => {
    const folder = aFolder();
    const before = aReplica({ folder });
    await before.serve({ promptTokens: A });
    await before.disk?.whenIdle();
    const after = aReplica({ folder });
    after.engine.submit(aGenerateRequest({ promptTokens: A }), 0);
    expect(after.engine.plan(0).batch).toBeUndefined();
    expect(after.engine.cancel("a")).toMatchObject([{ reason: "cancelled" }]);
    await eventually("the fetch is over", () => after.arrived.length > 0);
    after.engine.checkInvariants();
    expect(after.engine.load()).toMatchObject({ queuedRequests: 0, usedBlocks: 0 });
  });
});

/** The hashes of a prompt's full blocks, as the tenant and salt of `aGenerateRequest` make them. */
function chainOf(promptTokens: readonly number[]): { readonly chain: readonly string[] } {
  const request = aGenerateRequest({ promptTokens });
  const sequence = new Sequence({
    request,
    arrivalNumber: 1,
    arrivedAtMs: 0,
    outputTokensMax: 1,
    hashing: { hashBlock, blockTokens: POOL.blockTokens, modelRevision: "model" },
  });
  const blocks = Array.from({ length: sequence.chain.fullBlocks }, (_, index) => index);
  return { chain: blocks.map((block) => sequence.chain.hashAt(block)) };
}
