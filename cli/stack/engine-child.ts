import * as z from "zod";
import { PACKAGE_ROOT } from "../wrangler.ts";
import type { ChildPlan } from "./child.ts";
import type { EngineFacts } from "./stack-event.ts";
import type { EnginePlan } from "./stack-plan.ts";

/** What all engines of a stack have in common. */
export interface EngineOptions {
  readonly precision: string;
  readonly runtime: string;
  /** Host memory of each for KV below its pool, by which it also comes from the others; 0: none does. */
  readonly kvHostMib: number;
  /** Absolute; absent: the engine's own bundled model. */
  readonly modelFolder: string | undefined;
  /** Absolute; holds the engine's programs, compiled. */
  readonly buildFolder: string;
  readonly replicaSecret: string;
  /** Where the pools take the engines' connections, such as `ws://127.0.0.1:8787`. */
  readonly gatewaySocketUrl: string;
}

/** How long the requests that run may take to finish when the stack is stopped. */
const DRAIN_MS = 10_000;
/** What an engine may need beyond that, to let go of its listeners and its thread. */
const EXIT_AFTER_DRAIN_MS = 3000;

/** Returns how to start one engine: it stops when its stdin ends, which is when we are gone. */
export function planEngineChild(
  plan: EnginePlan,
  options: EngineOptions,
  engines: readonly EnginePlan[] = [plan],
): Omit<ChildPlan, "onLine"> {
  const flags = {
    "--model-name": plan.upstreamModel,
    "--host": plan.host,
    "--port": String(plan.port),
    "--precision": options.precision,
    "--runtime": options.runtime,
    "--pool-url": `${options.gatewaySocketUrl}/internal/pools/${encodeURIComponent(plan.poolId)}`,
    "--advertise-url": plan.endpointUrl,
    "--drain-ms": String(DRAIN_MS),
    ...(options.modelFolder === undefined ? {} : { "--model": options.modelFolder }),
    ...kvFlags(plan, options, engines),
  };
  return {
    command: [
      process.execPath,
      "gpu-backend/start.mjs",
      ...Object.entries(flags).flat(),
      "--require-salt",
      // Prefill is cut so that no step breaks the tightest pace that was promised to those who decode.
      "--keep-tbt",
      "--exit-with-stdin",
    ],
    folder: PACKAGE_ROOT,
    environment: {
      ...process.env,
      SLUICE_ENGINE_BUILD: options.buildFolder,
      SLUICE_REPLICA_SECRET: options.replicaSecret,
    },
    stopGraceMs: DRAIN_MS + EXIT_AFTER_DRAIN_MS,
  };
}

/** KV comes from the engines of the same pool alone: others may have another model. */
function kvFlags(
  { poolId, endpointUrl, role }: EnginePlan,
  { kvHostMib }: EngineOptions,
  engines: readonly EnginePlan[],
): Record<string, string> {
  if (kvHostMib === 0) return {};
  const peers = engines.filter((other) => other.poolId === poolId);
  const urls = peers.map((peer) => peer.endpointUrl).filter((url) => url !== endpointUrl);
  return {
    "--kv-host-mib": String(kvHostMib),
    ...(urls.length > 0 && { "--kv-peers": urls.join(",") }),
    ...(role !== undefined && { "--role": role }),
  };
}

const ReadyLine = z.object({
  event: z.literal("ready"),
  model: z.string(),
  parameters: z.number(),
  precision: z.string(),
  runtime: z.string(),
  weightBytes: z.number(),
  kvPoolBytes: z.number(),
  kvPoolTokens: z.number(),
  scratchBytes: z.number(),
  readyMs: z.number(),
});

/**
 * Recognises the log line by which an engine says that its port is taken. Its own advice is a flag of
 * the engine's, which nobody gives who starts it from a file.
 */
export function isPortTaken(line: string): boolean {
  return line.includes('"event":"start-failed"') && /"Port \d+ on \S+ is taken/.test(line);
}

/** Recognises the log line by which an engine says that it can serve; undefined for any other. */
export function parseReadyLine(line: string): EngineFacts | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const { event: _event, ...facts } = ReadyLine.parse(JSON.parse(line));
    return facts;
  } catch {
    return undefined;
  }
}
