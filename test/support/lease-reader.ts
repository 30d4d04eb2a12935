import assert from "node:assert/strict";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import type { Engine } from "../../gpu-backend/engine/engine.ts";
import type { BlockBytes } from "../../gpu-backend/engine/executor/executor.ts";
import type { GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { BlockChain, tenantNamespace } from "../../gpu-backend/engine/kv-cache/block-chain.ts";
import type { Random } from "../../src/base/random.ts";

const LEASE_MS_MAX = 20;

/** The hashes of a request's full blocks, of its prompt and of what was emitted of its output. */
export function hashesOf(request: GenerateRequest, hashing: EngineOptions): string[] {
  const { promptTokens, emittedTokens = [], tenant, cacheSalt, adapter } = request;
  const tokens = [...promptTokens, ...emittedTokens];
  const chain = new BlockChain(hashing, tenantNamespace(tenant, cacheSalt), tokens, { adapter });
  return Array.from({ length: chain.fullBlocks }, (_, block) => chain.hashAt(block));
}

/**
 * Another engine that copies cached blocks, slowly, and often forgets to give them back. What it finds in them
 * has to be the same as long as its lease lasts, and the same for every lease of one hash.
 */
export class LeaseReader {
  opened = 0;
  comparisons = 0;
  readonly #parts: { readonly engine: Engine; readonly pool: BlockBytes; readonly random: Random };
  readonly #contents = new Map<string, string>();
  readonly #open = new Map<string, readonly string[]>();

  constructor(parts: {
    readonly engine: Engine;
    readonly pool: BlockBytes;
    readonly random: Random;
  }) {
    this.#parts = parts;
  }

  /** Looks at all that it has leased, lets go of something, and leases what is cached of these hashes. */
  act(hashes: readonly string[], nowMs: number): void {
    const { engine, random } = this.#parts;
    for (const [id, leased] of this.#open) {
      this.#compare(id, leased);
      if (random() < 0.2) engine.kvLeases.close(id);
      if (random() < 0.2) engine.kvLeases.renew(id, nowMs + LEASE_MS_MAX);
    }
    const id = `lease-${this.opened}`;
    const blocks = engine.kvLeases.open(id, hashes, nowMs + Math.ceil(LEASE_MS_MAX * random()));
    if (blocks === undefined || blocks === 0) return;
    this.opened += 1;
    this.#open.set(id, hashes.slice(0, blocks));
  }

  #compare(id: string, hashes: readonly string[]): void {
    const { engine, pool } = this.#parts;
    const blocks = engine.kvLeases.read(id, { from: 0, count: hashes.length });
    if (blocks === undefined) {
      this.#open.delete(id);
      return;
    }
    assert.equal(blocks.length, hashes.length, "A lease has what it was opened with");
    for (const [index, hash] of hashes.entries()) {
      const bytes = new Uint8Array(pool.blockBytes);
      pool.readBlock(blocks[index] ?? -1, bytes);
      const content = Buffer.from(bytes).toString("hex");
      assert.equal(content, this.#contents.get(hash) ?? content, "What is leased stays what it is");
      this.#contents.set(hash, content);
      this.comparisons += 1;
    }
  }
}
