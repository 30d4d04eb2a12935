import type { MessagePort } from "node:worker_threads";
import { monotonicNowMs } from "../clock.ts";
import type { OnnxExecutor } from "../engine/executor/onnx-executor.ts";
import type { KvLeases } from "../engine/kv-cache/kv-leases.ts";
import type { StepLoop } from "../step-loop.ts";
import { versionOf } from "../kv-tiers/open-kv-tiers.ts";
import { KvExchange, LEASE_MS } from "./kv-exchange.ts";
import type { FromEngine, ToEngine } from "./kv-messages.ts";
import { PeerTier } from "./peer-tier.ts";

/** Other engines as the engine's thread sees them, if any may be asked. */
export function openPeers(
  urls: readonly string[] = [],
  parts: {
    readonly executor: OnnxExecutor;
    readonly kvPort: MessagePort | undefined;
    readonly onFault: (message: string) => void;
  },
): PeerTier | undefined {
  const { executor, kvPort, onFault } = parts;
  if (kvPort === undefined || urls.length === 0) return undefined;
  return new PeerTier({
    urls,
    version: versionOf(executor),
    nowMs: monotonicNowMs,
    post: (message) => post(kvPort, message),
    onFault,
  });
}

/** Gives KV to other engines, and takes theirs, between two steps. */
export function exchangeKv(
  kvPort: MessagePort,
  parts: {
    readonly executor: OnnxExecutor;
    readonly peers: PeerTier | undefined;
    readonly leases: KvLeases;
    /** Told when blocks that were held for others are not any more. */
    readonly loop: Pick<StepLoop, "publishLoad">;
  },
): void {
  const { executor, peers, leases, loop } = parts;
  const exchange = new KvExchange({
    leases,
    pool: executor.kvPool,
    version: versionOf(executor),
    nowMs: monotonicNowMs,
    post: (message, transfer) => post(kvPort, message, transfer),
    peers,
    onGivenBack: () => loop.publishLoad(),
  });
  kvPort.on("message", (message: ToEngine) => exchange.hear(message));
  setInterval(() => exchange.expire(), LEASE_MS);
}

function post(port: MessagePort, message: FromEngine, transfer: readonly ArrayBuffer[] = []): void {
  port.postMessage(message, [...transfer]);
}
