import { hashText } from "../base/hash.ts";
import type { RequestId } from "../protocol/ids.ts";

/** Which of its tenant's objects a request belongs to. */
export interface ShardPlace {
  readonly tenantId: string;
  /** 0 is the object that a tenant has in any case, and that gives the others their parts. */
  readonly shard: number;
  readonly shardCount: number;
}

/** Where a request belongs, always the same place for the same request. */
export function placeOf(tenantId: string, shardCount: number, requestId: RequestId): ShardPlace {
  return { tenantId, shard: hashText(requestId) % shardCount, shardCount };
}

/** The name of one of a tenant's objects. No tenant's own name has a stroke. */
export function shardName(tenantId: string, shard: number): string {
  return shard === 0 ? tenantId : `${tenantId}/${shard}`;
}

/** Whose object has a name, and which of them it is. */
export function partsOfShardName(name: string): { tenantId: string; shard: number } {
  const [tenantId = "", shard = "0"] = name.split("/");
  return { tenantId, shard: Number(shard) };
}
