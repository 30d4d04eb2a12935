import { env } from "cloudflare:workers";
import { onTestFinished, vi } from "vitest";
import { PoolId } from "../../../src/protocol/ids.ts";
import type { ReplicaHello, ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { REPORT_INTERVAL_MS } from "../../../src/protocol/engine-api.ts";

/** Long enough for a machine that is busy. */
const PATIENCE = { timeout: 10_000 };

/** A replica's connection to its pool, kept alive by reports until the test ends. */
export interface ConnectedReplica {
  readonly socket: WebSocket;
  /** Resolves with the close code once the pool ends the connection. */
  readonly closed: Promise<number>;
  /** Changes what the replica says about itself and says it at once. */
  report(change?: Partial<ReplicaReport>): void;
  /** Leaves, as an engine that shuts down does. */
  close(): void;
}

export interface ReplicaWish {
  readonly poolId?: string;
  readonly hello?: Partial<ReplicaHello>;
  readonly report?: Partial<ReplicaReport>;
}

const IDLE_REPORT: Omit<ReplicaReport, "sequence"> = {
  kind: "report",
  queuedRequests: 0,
  runningRequests: 0,
  usedBlocks: 0,
  blockTokens: 16,
  blockCount: 1024,
  queuedUncachedTokens: 0,
  queuedAttendedPairs: 0,
  runningKvTokens: 0,
  waitingKvTokens: 0,
  step: { fixedMs: 10, tokenMs: 0.2, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 },
  speedRatio: 1,
  prefillTimeRatio: 0,
  prefillTokensPerSecond: 5000,
  stepMs: 10,
  tightestTbtMs: null,
  lastDispatch: null,
  draining: false,
};

/** What a replica reports that takes so long to prefill one token. */
export function prefillingAt(tokenMs: number): Partial<ReplicaReport> {
  return { step: { ...IDLE_REPORT.step, tokenMs } };
}

/**
 * Dials in to a pool as an engine at `endpointUrl` does: hello, a first report, then one every
 * `REPORT_INTERVAL_MS`. The pool's object is reached directly; the edge's own check of the secret
 * has tests of its own.
 */
export async function connectReplica(
  endpointUrl: string,
  wish: ReplicaWish = {},
): Promise<ConnectedReplica> {
  const poolId = wish.poolId ?? "local";
  const response = await env.POOLS.getByName(poolId).fetch(
    `https://gateway.test/internal/pools/${poolId}`,
    { headers: { upgrade: "websocket" } },
  );
  const socket = response.webSocket;
  if (socket === null) throw new Error(`The pool answered ${response.status}, not an upgrade`);
  const closed = new Promise<number>((resolve) => {
    socket.addEventListener("close", (event) => resolve(event.code));
  });
  socket.accept();

  const hello: ReplicaHello = {
    kind: "hello",
    protocolVersion: 3,
    endpointUrl,
    instanceId: crypto.randomUUID(),
    modelId: "sluice-tiny",
    contextTokens: 2048,
    blockTokens: 16,
    blockCount: 1024,
    sequencesMax: 8,
    queueMax: 8,
    batchTokensMax: 512,
    keepsTbt: false,
    ...wish.hello,
  };
  socket.send(JSON.stringify(hello));

  let latest = { ...IDLE_REPORT, ...wish.report };
  let sequence = 0;
  const report = (change: Partial<ReplicaReport> = {}): void => {
    latest = { ...latest, ...change };
    sequence += 1;
    socket.send(JSON.stringify({ sequence, ...latest }));
  };
  report();
  const heartbeat = setInterval(report, REPORT_INTERVAL_MS);
  const close = (): void => {
    clearInterval(heartbeat);
    socket.close(1000, "the replica shuts down");
  };
  closed.then(() => clearInterval(heartbeat)).catch(() => {});
  onTestFinished(close);
  await Promise.race([closed, becomesVisible(poolId, endpointUrl)]);
  return { socket, closed, report, close };
}

/** Waits until the pool has taken hello and report: what a test does next must not overtake it. */
async function becomesVisible(poolId: string, endpointUrl: string): Promise<void> {
  await vi.waitFor(async () => {
    const { replicas } = await env.POOLS.getByName(poolId).status(PoolId.parse(poolId));
    const replica = replicas.find((candidate) => candidate.endpointUrl === endpointUrl);
    if (replica === undefined || ["disconnected", "silent"].includes(replica.state)) {
      throw new Error(`Replica ${endpointUrl} is not in pool ${poolId}`);
    }
  }, PATIENCE);
}
