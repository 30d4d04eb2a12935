import assert from "node:assert/strict";
import { MessageChannel } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { KV_LEASES_MAX } from "../../../gpu-backend/engine/kv-cache/kv-leases.ts";
import { KvExchange } from "../../../gpu-backend/kv-peers/kv-exchange.ts";
import { KvLender } from "../../../gpu-backend/kv-peers/kv-lender.ts";
import type { FromEngine, ToEngine } from "../../../gpu-backend/kv-peers/kv-messages.ts";
import { loadNear } from "../../../gpu-backend/kv-peers/load-near.ts";
import { aGenerateRequest, hashBlockReadably, tokenRange } from "../../support/engine-builders.ts";
import { eventually } from "../../support/eventually.ts";
import { hashesOf } from "../../support/lease-reader.ts";
import { MemoryEngine } from "../../support/memory-engine.ts";

/** So large that each goes by itself. */
const BLOCK_BYTES = 2 ** 20;
const VERSION = { modelRevision: "model", blockTokens: 4, blockBytes: BLOCK_BYTES };
const OPTIONS = {
  modelRevision: "model",
  hashBlock: hashBlockReadably,
  blockTokens: 4,
  blockCount: 8,
  contextTokens: 64,
  batchTokensMax: 64,
  sequencesMax: 4,
  queueMax: 16,
  prefixCache: true,
};

/** An engine with four blocks of a prompt behind it, which lends over a port as its thread does. */
function aLender() {
  const memory = new MemoryEngine(OPTIONS);
  const request = aGenerateRequest({ promptTokens: tokenRange(16, 1), outputTokensMax: 1 });
  memory.submit(request);
  memory.runToEnd();
  const { engine } = memory;
  const { port1: near, port2: far } = new MessageChannel();
  onTestFinished(() => near.close());
  const exchange = new KvExchange({
    leases: engine.kvLeases,
    pool: {
      blockBytes: BLOCK_BYTES,
      readBlock: (block, bytes) => bytes.fill(block + 1),
      writeBlock: () => assert.fail("who lends writes nothing"),
    },
    version: VERSION,
    nowMs: () => 0,
    post: (message, transfer) => far.postMessage(message, [...transfer]),
    peers: undefined,
    onGivenBack: () => undefined,
  });
  far.on("message", (message: ToEngine) => exchange.hear(message));
  const lender = new KvLender(near);
  near.on("message", (message: Extract<FromEngine, { kind: "lease" | "bytes" }>) => {
    lender.hear(message);
  });
  const hashes = hashesOf(request, OPTIONS);
  const isGivenBack = () =>
    eventually("the lease is given back", () => {
      engine.checkInvariants();
      return engine.kvLeases.count === 0 && engine.load().usedBlocks === 0;
    });
  return { engine, lender, hashes, far, isGivenBack };
}

/** Loads it, and does something as soon as a piece with that index is there. */
async function load(
  lender: KvLender,
  hashes: readonly string[],
  { version = VERSION, on }: { version?: typeof VERSION; on?: Record<number, () => void> } = {},
) {
  const abort = new AbortController();
  const froms: number[] = [];
  const values: (number | undefined)[] = [];
  const pass = (from: number, bytes: Uint8Array): void => {
    froms.push(from);
    values.push(bytes[0], bytes.at(-1));
    expect(bytes.byteLength).toBe(BLOCK_BYTES);
    if (on?.[from] === abortNow) abort.abort();
    else on?.[from]?.();
  };
  const outcome = await loadNear(lender, { version, hashes }, { signal: abort.signal, pass });
  return { outcome, froms, values };
}

function abortNow(): void {
  // Told apart by what it is.
}

test("all that is there comes, piece by piece, and the lease is given back", async () => {
  const { lender, hashes, engine, isGivenBack } = aLender();
  const held: number[] = [];
  const look = () => held.push(engine.kvLeases.count);
  const { outcome, froms, values } = await load(lender, [...hashes, "nothing"], {
    on: { 0: look, 3: look },
  });
  expect(outcome).toEqual({ kind: "done" });
  expect(froms).toEqual([0, 1, 2, 3]);
  // What is in each of four blocks, from its first byte to its last.
  expect(new Set(values).size).toBe(4);
  expect(values.filter((_, index) => index % 2 === 0)).toEqual(
    values.filter((_, index) => index % 2 === 1),
  );
  expect(held).toEqual([1, 1]);
  await isGivenBack();
});

test("of what is not there nothing comes", async () => {
  const { lender, isGivenBack } = aLender();
  expect(await load(lender, ["nothing"])).toMatchObject({ outcome: { kind: "done" }, froms: [] });
  await isGivenBack();
});

test("KV of another model is refused for good, and too many readers for now", async () => {
  const { lender, hashes, engine } = aLender();
  const version = { ...VERSION, modelRevision: "another" };
  const { outcome } = await load(lender, hashes, { version });
  expect(outcome).toEqual({
    kind: "refused",
    message: expect.stringContaining("model revision and precision model, not another"),
  });
  for (let index = 0; index < KV_LEASES_MAX; index += 1) {
    engine.kvLeases.open(`lease-${index}`, hashes, 10);
  }
  expect((await load(lender, hashes)).outcome).toMatchObject({ kind: "failed" });
  expect(engine.kvLeases.count).toBe(KV_LEASES_MAX);
});

test("who gives up in the midst gets no more, and holds nothing", async () => {
  const { lender, hashes, isGivenBack } = aLender();
  const { froms } = await load(lender, hashes, { on: { 1: abortNow } });
  expect(froms).toEqual([0, 1]);
  await isGivenBack();
});

test("what runs at the lender comes first: then the rest is computed", async () => {
  const { lender, hashes, engine, isGivenBack } = aLender();
  const endLease = () => void engine.kvLeases.makeRoom(() => engine.kvLeases.count === 0);
  const { outcome, froms } = await load(lender, hashes, { on: { 0: endLease } });
  expect(outcome).toMatchObject({ kind: "failed", message: expect.stringContaining("has ended") });
  expect(froms).toEqual([0]);
  await isGivenBack();
});

test("an engine that ends in the midst, or has ended, is said to have", async () => {
  const { lender, hashes, far } = aLender();
  const { outcome, froms } = await load(lender, hashes, { on: { 1: () => far.close() } });
  expect(outcome.kind).toBe("failed");
  expect(froms).toEqual([0, 1]);
  expect((await load(lender, hashes)).outcome).toEqual({
    kind: "failed",
    message: "its engine has ended",
  });
});
