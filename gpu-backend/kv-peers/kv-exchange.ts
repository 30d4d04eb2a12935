import type { BlockBytes } from "../engine/executor/executor.ts";
import type { KvLeases } from "../engine/kv-cache/kv-leases.ts";
import { describeMismatch, type KvVersion } from "../kv-tiers/kv-block-file.ts";
import type { FromEngine, LeaseAnswer, LendCall, ToEngine } from "./kv-messages.ts";
import type { PeerTier } from "./peer-tier.ts";

/** A reader that does not come back for the next blocks within so long is gone. */
export const LEASE_MS = 5_000;

export interface KvExchangeOptions {
  readonly leases: KvLeases;
  readonly pool: BlockBytes;
  readonly version: KvVersion;
  readonly nowMs: () => number;
  readonly post: (message: FromEngine, transfer: readonly ArrayBuffer[]) => void;
  /** Absent: none may be asked. */
  readonly peers: PeerTier | undefined;
  /** Called when blocks that were held for others are not any more. */
  readonly onGivenBack: () => void;
}

/** The engine's side of the port that KV comes and goes by; heard between two steps. */
export class KvExchange {
  readonly #options: KvExchangeOptions;

  constructor(options: KvExchangeOptions) {
    this.#options = options;
  }

  hear(message: ToEngine): void {
    const { leases, peers, post } = this.#options;
    switch (message.kind) {
      case "open":
        post({ kind: "lease", call: message.call, answer: this.#open(message) }, []);
        break;
      case "read": {
        const bytes = this.#read(message);
        post({ kind: "bytes", call: message.call, bytes }, bytes ? [bytes.buffer] : []);
        break;
      }
      case "close":
        leases.close(message.lease);
        this.#options.onGivenBack();
        break;
      case "blocks":
      case "fetched":
        peers?.hear(message);
        break;
    }
  }

  /** Ends what was not read in time, also while nothing else happens. */
  expire(): void {
    const { leases, nowMs, onGivenBack } = this.#options;
    if (leases.expire(nowMs())) onGivenBack();
  }

  #open({ lease, version, hashes }: Extract<LendCall, { kind: "open" }>): LeaseAnswer {
    const { leases, nowMs, version: own } = this.#options;
    const message = describeMismatch(version, own);
    if (message !== undefined) return { kind: "mismatch", message };
    this.expire();
    const blocks = leases.open(lease, hashes, nowMs() + LEASE_MS);
    return blocks === undefined ? { kind: "busy" } : { kind: "opened", blocks };
  }

  #read({ lease, from, count }: Extract<LendCall, { kind: "read" }>) {
    const { leases, pool, nowMs } = this.#options;
    this.expire();
    const blocks = leases.read(lease, { from, count });
    if (blocks === undefined) return undefined;
    leases.renew(lease, nowMs() + LEASE_MS);
    const bytes = new Uint8Array(blocks.length * pool.blockBytes);
    for (const [index, block] of blocks.entries()) {
      const start = index * pool.blockBytes;
      pool.readBlock(block, bytes.subarray(start, start + pool.blockBytes));
    }
    return bytes;
  }
}
