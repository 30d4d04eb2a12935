import { EventEmitter, once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GenerateRequest } from "../../gpu-backend/engine/generate-request.ts";
import { DiskTier } from "../../gpu-backend/kv-tiers/disk-tier.ts";
import { KvTiers } from "../../gpu-backend/kv-tiers/kv-tiers.ts";
import { MemoryTier } from "../../gpu-backend/kv-tiers/memory-tier.ts";
import { aRequest, BenchEngine, BLOCK_TOKENS, cpuNowMs, type Machine } from "./bench-engine.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";
import { somePrompt } from "./workload.ts";

/** In tokens behind which one more is computed, whole blocks. */
const PREFIX_TOKENS = [16, 64, 256, 1488];
const POOL_BLOCKS = 96;
const MEMORY_BYTES = 2 ** 27;

const SIDES = ["recomputed", "from memory", "from disk"] as const;
type Side = (typeof SIDES)[number];

export const TIERS: Section = {
  title: "KV tiers",
  published:
    "vLLM's offload connector 2025: first tokens 2 to 22 times sooner, Llama 8B on an H100, KV from host memory; LMCache up to 15 times the throughput of conversations. Loading pays where bytes / bandwidth is below the prefill of the same tokens",
  how: "the first token of a prompt whose beginning the pool has evicted, CPU time: computed over loaded; from disk with the reads of this process, out of the page cache of the system",
  why: "1.6 KiB a token in int8 and 6 in f32 are copied at some GB/s, and a token takes 0.1 to 0.2 ms to compute: there is no length at which a processor computes sooner than memory copies. A disk that is not in the page cache adds its own time, which the engine measures and this does not",
  predicts: true,
  measure,
};

async function measure({ machine, curve, repeats, random }: Conditions): Promise<Row[]> {
  const rows: Row[] = [];
  let seed = 0;
  for (const prefixTokens of PREFIX_TOKENS) {
    // oxlint-disable-next-line no-await-in-loop -- one at a time
    const samplesOf = await takeTurns(SIDES, { repeats, random }, async (side: Side) =>
      firstTokenMs(machine, side, { prefixTokens, seed: (seed += 1) }),
    );
    const computedMs = medianOf(samplesOf("recomputed"));
    const predictedMs = curve.predictMs({
      tokens: prefixTokens + 1,
      attendedPairs: ((prefixTokens + 1) * (prefixTokens + 2)) / 2,
      sequences: 1,
      kvTokens: prefixTokens + 1,
    });
    for (const side of SIDES.slice(1)) {
      const ratio = ratioOf(samplesOf("recomputed"), samplesOf(side), random);
      const loadedMs = medianOf(samplesOf(side));
      rows.push({
        what: `${prefixTokens} tokens ${side}`,
        ours: `${show(ratio, 1)} (${computedMs.toFixed(1)} → ${loadedMs.toFixed(1)} ms)`,
        predicted: `${predictedMs.toFixed(1)} ms to compute`,
      });
    }
  }
  return rows;
}

/** What it takes to come to the first token of a prompt that was here before, and is not in the pool. */
async function firstTokenMs(
  machine: Machine,
  side: Side,
  { prefixTokens, seed }: { readonly prefixTokens: number; readonly seed: number },
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const before = openReplica(machine, side, folder);
    const request = aRequest({
      promptTokens: somePrompt(prefixTokens + 1, seed),
      outputTokensMax: 1,
    });
    if (side === "recomputed") return await timeFirstToken(before, request);
    before.bench.submit(request);
    await before.bench.runToEnd();
    if (side === "from disk") {
      await before.disk?.whenIdle();
      // As after a restart: what was in memory is gone.
      return await timeFirstToken(openReplica(machine, side, folder), request);
    }
    const promptTokens = somePrompt((POOL_BLOCKS - 1) * BLOCK_TOKENS, seed + 10_000);
    before.bench.submit(aRequest({ id: "other", promptTokens, outputTokensMax: 1 }));
    await before.bench.runToEnd();
    return await timeFirstToken(before, request);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Replica {
  readonly bench: BenchEngine;
  readonly disk: DiskTier | undefined;
  /** Resolves once what was fetched is here. */
  readonly arrival: Promise<unknown>;
}

function openReplica(machine: Machine, side: Side, folder: string): Replica {
  const { kvPool: pool } = machine.executor;
  const { blockBytes } = pool;
  const arrivals = new EventEmitter();
  const arrival = once(arrivals, "arrived");
  const disk =
    side === "from disk"
      ? new DiskTier({ folder, bytesMax: MEMORY_BYTES, blockBytes, onFault: fail })
      : undefined;
  const tiers = new KvTiers({
    pool,
    memory: new MemoryTier({ bytesMax: MEMORY_BYTES, blockBytes }),
    disk,
    nowMs: cpuNowMs,
    onArrived: (id) => {
      bench.engine.kvArrived(id);
      arrivals.emit("arrived");
    },
  });
  const bench: BenchEngine = new BenchEngine(machine, {
    blockCount: POOL_BLOCKS,
    prefixCache: true,
    ...(side !== "recomputed" && { kvTier: tiers }),
  });
  return { bench, disk, arrival };
}

async function timeFirstToken(
  { bench, disk, arrival }: Replica,
  request: GenerateRequest,
): Promise<number> {
  const startedAtMs = cpuNowMs();
  bench.submit(request);
  if (disk !== undefined) await arrival;
  await bench.runToEnd();
  return cpuNowMs() - startedAtMs;
}

function fail(message: string): never {
  throw new Error(message);
}
