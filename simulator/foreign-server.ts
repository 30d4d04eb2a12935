import type { EngineSignals } from "../src/protocol/engine-signals.ts";
import type { ForeignEngine } from "../src/protocol/engine-kind.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { ReplicaLink } from "./replica-link.ts";
import type { World } from "./world.ts";

/** A server of the pool that is not ours: it never dials in, and says when it is asked what it likes. */
export interface ForeignServer {
  readonly engine: ForeignEngine;
  /** Which part of the requests it has it tells of: 1 is honest, 0 idle whatever it does; absent: it tells nothing. */
  readonly toldRatio?: number;
}

/** As a pool's object asks: about once a second, give or take a fifth. */
const ROUND_MS = 1_000;
const JITTER_RATIO = 0.2;

/** Asks such a server how it is from now on; nothing comes from one that tells nothing, or is not there. */
export function pollServer(
  { toldRatio }: ForeignServer,
  {
    world,
    link,
    dispatcher,
  }: { readonly world: World; readonly link: ReplicaLink; readonly dispatcher: Dispatcher },
): void {
  const random = world.randomFor(`polls of ${link.replicaId}`);
  const ask = (): void => {
    if (toldRatio !== undefined) dispatcher.told?.(link.replicaId, saidBy(link, toldRatio));
    world.after(ROUND_MS * (1 + JITTER_RATIO * (2 * random() - 1)), ask);
  };
  ask();
}

function saidBy({ replica }: ReplicaLink, toldRatio: number): EngineSignals {
  if (!replica.isUp) return {};
  const { runningRequests, queuedRequests } = replica.load;
  return {
    isReady: true,
    running: Math.round(toldRatio * runningRequests),
    queued: Math.round(toldRatio * queuedRequests),
  };
}
