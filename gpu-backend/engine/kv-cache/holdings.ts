import { assert } from "../../../src/base/assert.ts";
import type { BlockChain } from "./block-chain.ts";
import type { KvShares } from "./kv-shares.ts";

/** What one sequence holds. */
export interface Holding {
  readonly share: number;
  readonly chain: BlockChain;
  /** Its block table, which only grows. */
  readonly blocks: number[];
  /** The first so many blocks are full, computed and offered to the prefix cache. */
  confirmedBlocks: number;
}

/** Who holds which blocks, and in which order: the block tables of all that run. */
export class Holdings {
  readonly #byId = new Map<string, Holding>();

  add(id: string, holding: Holding): void {
    assert(!this.#byId.has(id), `Sequence ${id} holds blocks already`);
    this.#byId.set(id, holding);
  }

  of(id: string): Holding {
    const holding = this.#byId.get(id);
    assert(holding !== undefined, `Sequence ${id} holds no blocks`);
    return holding;
  }

  remove(id: string): Holding {
    const holding = this.of(id);
    this.#byId.delete(id);
    return holding;
  }

  ids(): Iterable<string> {
    return this.#byId.keys();
  }

  /**
   * Throws unless the pool's reference counts are exactly the block tables that hold each block, and the
   * leases that do.
   */
  checkInvariants(shares: KvShares, leasedBlocks: Iterable<number> = []): void {
    const references = new Map<number, number>();
    for (const block of leasedBlocks) references.set(block, (references.get(block) ?? 0) + 1);
    for (const [id, { share, blocks, confirmedBlocks }] of this.#byId) {
      assert(new Set(blocks).size === blocks.length, `Sequence ${id} holds no block twice`);
      assert(confirmedBlocks <= blocks.length, `Sequence ${id} confirmed only what it holds`);
      assert(
        blocks.every((block) => shares.belongsTo(block, share)),
        `What sequence ${id} holds counts against its tenant's share`,
      );
      for (const block of blocks) references.set(block, (references.get(block) ?? 0) + 1);
    }
    assert(
      references.size === shares.usedBlocks,
      "Every used block is in a block table, or leased",
    );
    for (const [block, held] of references) {
      assert(shares.referencesOf(block) === held, `Block ${block} counts its holders`);
      // A block that can still be written must not be readable by anybody else.
      assert(held === 1 || this.#isConfirmed(block), `Shared block ${block} is confirmed`);
    }
  }

  #isConfirmed(block: number): boolean {
    return [...this.#byId.values()].every(({ blocks, confirmedBlocks }) => {
      const index = blocks.indexOf(block);
      return index === -1 || index < confirmedBlocks;
    });
  }
}
