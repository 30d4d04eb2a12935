import { join } from "node:path";
import type { OnnxExecutor } from "../engine/executor/onnx-executor.ts";
import { DiskTier } from "./disk-tier.ts";
import { type KvVersion, versionName } from "./kv-block-file.ts";
import { KvTiers, type KvTiersOptions } from "./kv-tiers.ts";
import { MemoryTier } from "./memory-tier.ts";

/** What an operator gives the tiers below a KV pool. */
export interface KvTierSettings {
  readonly memoryBytes: number;
  /** Absent: what is in memory is all, and gone with the process. */
  readonly disk: { readonly folder: string; readonly bytes: number } | undefined;
}

/** Opens the tiers of one engine; on disk, those blocks alone that its very model can use. */
export function openKvTiers(
  settings: KvTierSettings,
  executor: OnnxExecutor,
  options: Pick<KvTiersOptions, "nowMs" | "onArrived" | "peers"> & {
    readonly onFault: (message: string) => void;
  },
): KvTiers {
  const { kvPool: pool } = executor;
  const { blockBytes } = pool;
  const version = versionName(versionOf(executor));
  const disk =
    settings.disk &&
    new DiskTier({
      folder: join(settings.disk.folder, version),
      bytesMax: settings.disk.bytes,
      blockBytes,
      onFault: options.onFault,
    });
  const memory = new MemoryTier({ bytesMax: settings.memoryBytes, blockBytes });
  const { nowMs, onArrived, peers } = options;
  return new KvTiers({ pool, memory, disk, peers, nowMs, onArrived });
}

/** What the KV of an executor is of. */
export function versionOf(executor: OnnxExecutor): KvVersion {
  const { kvPool, blockTokens, revision: modelRevision } = executor;
  return { modelRevision, blockTokens, blockBytes: kvPool.blockBytes };
}
