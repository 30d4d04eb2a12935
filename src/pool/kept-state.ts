import { decodeState, encodeState } from "../base/state-text.ts";
import type { PoolState } from "./pool-state.ts";

/**
 * Another one for whatever changes in what a pool remembers, however deep: what was kept by another program
 * is then lost, and not misread.
 */
export const POOL_STATE_FORMAT = 10;

/** What is older says nothing of how things are. */
const KEPT_MS_MAX = 3_600_000;
/** Below the two megabytes of a stored value, also where names are not of one byte a character. */
const KEPT_CHARACTERS_MAX = 600_000;

interface KeptState {
  readonly format: number;
  readonly keptAtMs: number;
  readonly state: PoolState;
}

/**
 * Writes down what a pool remembers when nobody waits for it or runs in it; `undefined` when somebody does,
 * since of them nothing may be told that is not true any more, and when it is too much.
 */
export function keepState(state: PoolState, nowMs: number): string | undefined {
  if (state.leases.size > 0 || state.waiting.size > 0) return undefined;
  const text = encodeState({ format: POOL_STATE_FORMAT, keptAtMs: nowMs, state });
  return text.length > KEPT_CHARACTERS_MAX ? undefined : text;
}

/**
 * Reads what a pool goes on from in another life; `undefined` for what is of another program, too old, or not
 * readable. Its replicas count as gone until they say something, what was meant to relearn is relearned, and
 * what an operator has said is known elsewhere.
 */
export function reviveState(
  text: string,
  life: { readonly startedAtMs: number; readonly relearnMs: number },
): PoolState | undefined {
  const { startedAtMs, relearnMs } = life;
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as the format says
    const { format, keptAtMs, state } = decodeState(text) as KeptState;
    const ageMs = startedAtMs - keptAtMs;
    if (format !== POOL_STATE_FORMAT || !(ageMs >= 0 && ageMs <= KEPT_MS_MAX)) return undefined;
    const revived: PoolState = { ...state, relearnUntilMs: startedAtMs + relearnMs };
    delete revived.isClosed;
    delete revived.wakeAtMs;
    for (const replica of revived.replicas.values()) {
      replica.isConnected = false;
      delete replica.isDrained;
    }
    return revived;
  } catch {
    return undefined;
  }
}
