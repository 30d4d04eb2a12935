import * as z from "zod";
import type { LeaseGrant, LeaseRequest, TenantStanding } from "../src/tenants/shard-allotments.ts";
import { ShardAllotment, ShardAllotments, SHARDS_MAX } from "../src/tenants/shard-allotments.ts";

const KEY = "shard-allotments";
const Stored = z.array(ShardAllotment).max(SHARDS_MAX).default([]);

/** Keeps on disk which part of a tenant's limits each of its shards has. */
export class StoredAllotments {
  readonly allotments: ShardAllotments;
  readonly #storage: DurableObjectStorage;

  /** Throws where what is stored cannot be read: to begin anew would be to give everything twice. */
  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.allotments = new ShardAllotments(Stored.parse(storage.kv.get(KEY)));
  }

  /** A grant that is told must not be forgotten; unconfirmed, since other answers need not wait for it. */
  async renew(
    request: LeaseRequest,
    standing: TenantStanding,
    nowMs: number,
  ): Promise<LeaseGrant | undefined> {
    const grant = this.allotments.renew(request, standing, nowMs);
    if (grant === undefined) return undefined;
    // Each rejects, also where storage that is gone throws at once: nothing is left to itself.
    const stored = async () =>
      this.#storage.put(KEY, this.allotments.state, { allowUnconfirmed: true });
    const synced = async () => this.#storage.sync();
    await Promise.all([stored(), synced()]);
    return grant;
  }
}
