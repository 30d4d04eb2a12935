import {
  embeddingValueBytesOf,
  type MemoryNeeds,
  planMemory,
  poolRoomBytesOf,
} from "./engine/executor/memory-plan.ts";
import type { LoadedModel } from "./engine/model/load-model.ts";
import { defaultBlockCount } from "./model-size.ts";

/**
 * How many blocks a KV pool gets that nobody has asked for, so that each of `shareCount` tenants has a context:
 * what is left of the heap beside weights and buffers bounds it.
 */
export function unaskedBlockCount(
  model: LoadedModel,
  needs: Omit<MemoryNeeds, "blockCount" | "embeddingValueBytes">,
  shareCount: number,
): number {
  const { blockTokens, kvPrecision } = needs;
  const blockCount = Math.ceil(model.config.contextTokens / blockTokens);
  const embeddingValueBytes = embeddingValueBytesOf(model);
  const plan = planMemory(model.config, { ...needs, blockCount, embeddingValueBytes });
  const roomBytes = poolRoomBytesOf(plan);
  return defaultBlockCount(model.config, { blockTokens, shareCount, roomBytes, kvPrecision });
}
