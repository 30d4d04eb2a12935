import { describe, expect, test } from "vitest";
import { KV_LEASES_MAX } from "../../../../gpu-backend/engine/kv-cache/kv-leases.ts";
import { KvShares } from "../../../../gpu-backend/engine/kv-cache/kv-shares.ts";
import { PrefixCache } from "../../../../gpu-backend/engine/kv-cache/prefix-cache.ts";
import { KvLeases } from "../../../../gpu-backend/engine/kv-cache/kv-leases.ts";
import type { EngineOptions } from "../../../../gpu-backend/engine/engine-options.ts";
import {
  aGenerateRequest,
  anEngine,
  hashBlockReadably,
  tokenRange,
} from "../../../support/engine-builders.ts";
import { hashesOf } from "../../../support/lease-reader.ts";
import { MemoryEngine } from "../../../support/memory-engine.ts";

const OPTIONS: Pick<EngineOptions, "blockTokens" | "blockCount"> = {
  blockTokens: 4,
  blockCount: 8,
};
const HASHING = { modelRevision: "model", hashBlock: hashBlockReadably, ...OPTIONS };

/** An engine with a prompt of 16 tokens behind it, whose four blocks are cached and free. */
function anEngineWithPrompt(options: Partial<EngineOptions> = {}) {
  const memory = new MemoryEngine({ ...HASHING, ...options });
  const request = aGenerateRequest({ promptTokens: tokenRange(16, 1), outputTokensMax: 1 });
  memory.submit(request);
  memory.runToEnd();
  const hashes = hashesOf(request, { ...HASHING, ...anEngineOptions() });
  return { memory, engine: memory.engine, leases: memory.engine.kvLeases, hashes, request };
}

function anEngineOptions(): EngineOptions {
  return {
    ...HASHING,
    contextTokens: 64,
    batchTokensMax: 64,
    sequencesMax: 4,
    queueMax: 16,
    prefixCache: true,
  };
}

describe("a lease", () => {
  test("holds the beginning that is cached, and says how much that is", () => {
    const { engine, leases, hashes } = anEngineWithPrompt();
    expect(hashes).toHaveLength(4);
    expect(leases.open("a", [...hashes, "nothing"], 10)).toBe(4);
    expect(leases.open("b", ["nothing", ...hashes], 10)).toBe(0);
    expect(engine.load().usedBlocks).toBe(4);
    engine.checkInvariants();
    expect(leases.read("a", { from: 1, count: 2 })).toHaveLength(2);
    leases.close("a");
    leases.close("a");
    expect(engine.load().usedBlocks).toBe(0);
    expect(leases.read("a", { from: 0, count: 1 })).toBeUndefined();
    engine.checkInvariants();
  });

  test("of another salt or tenant finds nothing", () => {
    const { leases, request } = anEngineWithPrompt();
    const options = anEngineOptions();
    for (const theft of [{ cacheSalt: "guessed" }, { tenant: "thief" }, { adapter: "other" }]) {
      expect(leases.open("a", hashesOf({ ...request, ...theft }, options), 10)).toBe(0);
    }
    const another = { ...options, modelRevision: "another" };
    expect(leases.open("a", hashesOf(request, another), 10)).toBe(0);
    expect(leases.open("a", hashesOf(request, options), 10)).toBe(4);
  });

  test("ends by itself at its instant, unless it is renewed", () => {
    const { engine, leases, hashes } = anEngineWithPrompt();
    leases.open("a", hashes, 10);
    leases.renew("a", 20);
    engine.plan(19);
    expect(leases.count).toBe(1);
    engine.plan(20);
    expect(leases.count).toBe(0);
    expect(leases.endedEarly).toBe(1);
    expect(engine.load().usedBlocks).toBe(0);
  });

  test("gives way to who is admitted, and to who grows", () => {
    const { memory, leases, hashes } = anEngineWithPrompt();
    leases.open("a", hashes, Infinity);
    memory.submit(
      aGenerateRequest({ id: "b", promptTokens: tokenRange(15, 100), outputTokensMax: 10 }),
    );
    memory.step();
    // Four blocks were free.
    expect(leases.count).toBe(1);
    memory.runToEnd();
    expect(leases.count).toBe(0);
    expect(memory.tokensOf("b")).toHaveLength(10);
    const again = anEngineWithPrompt();
    again.leases.open("a", again.hashes, Infinity);
    again.memory.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(20, 100) }));
    again.memory.step();
    expect(again.leases.count).toBe(0);
  });

  test("does not keep a tenant's share from a newcomer", () => {
    const shares = { shareCount: 1, isolation: "strict" } as const;
    const { memory, leases, hashes } = anEngineWithPrompt({ shares: { ...shares, shareCount: 1 } });
    leases.open("a", hashes, Infinity);
    const other = { id: "b", tenant: "another", promptTokens: tokenRange(30, 100) };
    memory.submit(aGenerateRequest({ ...other, outputTokensMax: 1 }));
    memory.runToEnd();
    expect(memory.tokensOf("b")).toHaveLength(1);
    expect(leases.count).toBe(0);

    const divided = anEngineWithPrompt({ shares: { ...shares, shareCount: 2 }, blockCount: 16 });
    divided.leases.open("a", divided.hashes, Infinity);
    for (const tenant of ["second", "third"]) {
      divided.memory.submit(
        aGenerateRequest({ id: tenant, tenant, promptTokens: tokenRange(9, 100) }),
      );
    }
    divided.memory.step();
    expect(divided.engine.load().runningRequests).toBe(2);
    expect(divided.leases.count).toBe(0);
  });

  test("of what a failed request computed is revoked", () => {
    const engine = anEngine({ ...HASHING });
    const request = aGenerateRequest({ promptTokens: tokenRange(9, 1), outputTokensMax: 5 });
    engine.submit(request, 0);
    const first = engine.plan(0).batch;
    if (first === undefined) throw new Error("There is a step");
    const logits = { kind: "computed", chosen: [{ tokenId: 3 }] } as const;
    engine.commit(first, [logits]);
    expect(engine.kvLeases.open("a", hashesOf(request, anEngineOptions()), Infinity)).toBe(2);
    const second = engine.plan(0).batch;
    if (second === undefined) throw new Error("There is a step");
    engine.commit(second, [{ kind: "failed", message: "Poisoned" }]);
    expect(engine.kvLeases.count).toBe(0);
    engine.checkInvariants();
  });

  test("goes with the prefix cache when that is forgotten", () => {
    const { engine, leases, hashes } = anEngineWithPrompt();
    leases.open("a", hashes, Infinity);
    expect(engine.resetPrefixCache()).toBe(true);
    expect(leases.count).toBe(0);
    engine.checkInvariants();
  });

  test("is one of so many, and one that holds nothing is none", () => {
    const shares = new KvShares(4, { shareCount: 1, isolation: "borrow" });
    const prefixes = new PrefixCache();
    const block = shares.take(1);
    prefixes.register("hash", block);
    shares.release(block, true);
    const leases = new KvLeases(shares, prefixes);
    for (let index = 0; index < KV_LEASES_MAX; index += 1) {
      expect(leases.open(`${index}`, ["hash"], 10)).toBe(1);
    }
    expect(leases.open("more", ["hash"], 10)).toBeUndefined();
    leases.checkInvariants();
    leases.expire(10);
    expect(leases.open("more", ["other"], 10)).toBe(0);
    expect(leases.count).toBe(0);
    expect(shares.usedBlocks).toBe(0);
  });
});
