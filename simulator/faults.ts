import { assert, unreachable } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { PoolDispatcher } from "./pool-dispatcher.ts";
import type { ReplicaLink } from "./replica-link.ts";
import type { World } from "./world.ts";

/** What can happen to one replica, from an instant on and for a while. */
type ReplicaFault = {
  readonly replicaIndex: number;
  readonly atMs: number;
  readonly forMs: number;
} & (
  | { readonly kind: "slow"; readonly ratio: number }
  /** The process stands still; nobody notices but by its silence. */
  | { readonly kind: "frozen" }
  /** The process dies; `forMs` later another one takes its place. */
  | { readonly kind: "restarted" }
  /** It takes what is due for it and then is restarted. */
  | { readonly kind: "drained" }
  /** Requests vanish on the way there; reports do not. */
  | { readonly kind: "black-hole" }
  /** Reports vanish; requests do not. */
  | { readonly kind: "mute" }
  | { readonly kind: "disconnected" }
);

/** What can happen in a world. */
export type Fault =
  | ReplicaFault
  /** The pool's object dies and begins anew, perhaps where the clock says something else. */
  | { readonly kind: "pool-restarted"; readonly atMs: number; readonly clockOffsetMs: number };

/** What faults happen to. */
export interface FaultTargets {
  readonly world: World;
  readonly links: readonly ReplicaLink[];
  readonly dispatcher: Dispatcher;
}

const REPLICA_FAULT_KINDS = [
  "slow",
  "frozen",
  "restarted",
  "drained",
  "black-hole",
  "mute",
  "disconnected",
] as const;
const SLOWDOWN_MAX = 10;
const CLOCK_OFFSET_MS_MAX = 60_000;
/** One fault in so many is the pool's own. */
const FAULTS_PER_POOL_RESTART = 8;

/** Draws faults of all kinds that begin before an instant; each is over within `forMsMax`. */
export function drawFaults(
  random: Random,
  options: {
    readonly count: number;
    readonly replicas: number;
    readonly untilMs: number;
    readonly forMsMax: number;
  },
): Fault[] {
  return Array.from({ length: options.count }, (): Fault => {
    const atMs = random() * options.untilMs;
    if (random() * FAULTS_PER_POOL_RESTART < 1) {
      const clockOffsetMs = (random() - 0.5) * 2 * CLOCK_OFFSET_MS_MAX;
      return { kind: "pool-restarted", atMs, clockOffsetMs };
    }
    const kind = REPLICA_FAULT_KINDS[Math.floor(random() * REPLICA_FAULT_KINDS.length)] ?? "slow";
    const replicaIndex = Math.floor(random() * options.replicas);
    const common = { replicaIndex, atMs, forMs: 100 + random() * (options.forMsMax - 100) };
    if (kind === "slow") return { kind, ...common, ratio: 1 + random() * (SLOWDOWN_MAX - 1) };
    return { kind, ...common };
  });
}

/** Lets a fault happen when its time has come, and be over after its while. */
export function scheduleFault(fault: Fault, targets: FaultTargets): void {
  const { world, links, dispatcher } = targets;
  if (fault.kind === "pool-restarted") {
    // A policy has no object that could die.
    if (!(dispatcher instanceof PoolDispatcher)) return;
    world.at(fault.atMs, () => dispatcher.restart(fault.clockOffsetMs));
    return;
  }
  const link = links[fault.replicaIndex];
  assert(link !== undefined, "a fault has a replica");
  world.at(fault.atMs, () => begin(fault, link));
  world.at(fault.atMs + fault.forMs, () => end(fault, link));
}

function begin(fault: ReplicaFault, link: ReplicaLink): void {
  switch (fault.kind) {
    case "slow":
      link.replica.slowDown(fault.ratio);
      break;
    case "frozen":
      link.replica.freeze();
      break;
    case "restarted":
      link.replica.die();
      link.disconnect();
      break;
    case "drained":
      link.replica.drain();
      break;
    case "black-hole":
      link.setBlackHole(true);
      break;
    case "mute":
      link.setMute(true);
      break;
    case "disconnected":
      link.disconnect();
      break;
    default:
      unreachable(fault);
  }
}

/** Two faults of one replica may overlap: what one ends stays ended. */
function end(fault: ReplicaFault, link: ReplicaLink): void {
  switch (fault.kind) {
    case "slow":
      link.replica.slowDown(1);
      break;
    case "frozen":
      link.replica.thaw();
      break;
    case "drained":
    case "restarted":
      link.replica.die();
      link.disconnect();
      link.replica.rise();
      link.connect();
      break;
    case "black-hole":
      link.setBlackHole(false);
      break;
    case "mute":
      link.setMute(false);
      break;
    case "disconnected":
      link.connect();
      break;
    default:
      unreachable(fault);
  }
}
