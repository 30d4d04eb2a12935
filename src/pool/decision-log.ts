import { assert } from "../base/assert.ts";
import { copyState } from "../base/plain-state.ts";
import type { PoolCall } from "./pool-call.ts";
import { callPool } from "./pool-call.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolState } from "./pool-state.ts";
import type { PoolOptions } from "./pool.ts";
import { Pool } from "./pool.ts";

/** A call, when it was made, and what it led to. */
export interface LoggedCall {
  readonly call: PoolCall;
  readonly nowMs: number;
  readonly effects: readonly PoolEffect[];
}

/** Enough to make a stretch of a pool's decisions again: where it stood, and what it was told from there. */
export interface DecisionRecord {
  readonly snapshot: PoolState;
  readonly calls: readonly LoggedCall[];
}

/** Calls from one snapshot to the next: a copy of the state costs as much as some hundred of them. */
const CALLS_PER_SNAPSHOT = 4_096;

/**
 * Calls a pool and remembers how its late decisions came about: all calls since the last snapshot but
 * one, so that there are never fewer to look back on than lie between two snapshots.
 */
export class DecisionLog {
  readonly #pool: Pool;
  readonly #callsPerSnapshot: number;
  #before: DecisionRecord | undefined;
  #snapshot: PoolState;
  #calls: LoggedCall[] = [];

  constructor(pool: Pool, callsPerSnapshot = CALLS_PER_SNAPSHOT) {
    assert(callsPerSnapshot > 0, "a snapshot is taken now and then, not always");
    this.#pool = pool;
    this.#callsPerSnapshot = callsPerSnapshot;
    this.#snapshot = copyState(pool.state);
  }

  /** Makes a call of the pool and writes it down. */
  call(call: PoolCall, nowMs: number): PoolEffect[] {
    if (this.#calls.length >= this.#callsPerSnapshot) {
      this.#before = { snapshot: this.#snapshot, calls: this.#calls };
      this.#snapshot = copyState(this.#pool.state);
      this.#calls = [];
    }
    const effects = callPool(this.#pool, call, nowMs);
    this.#calls.push({ call, nowMs, effects });
    return effects;
  }

  /** The records at hand, the older first; each can be replayed by itself. Later calls leave them as they are. */
  records(): DecisionRecord[] {
    const current = { snapshot: this.#snapshot, calls: [...this.#calls] };
    return this.#before === undefined ? [current] : [this.#before, current];
  }
}

/**
 * Makes a record's decisions again, on a pool of the same options, and returns the calls that led
 * to something else: none, unless the code is another one.
 */
export function replay(
  record: DecisionRecord,
  options: Omit<PoolOptions, "state">,
): { readonly logged: LoggedCall; readonly replayed: readonly PoolEffect[] }[] {
  const pool = new Pool({ ...options, state: copyState(record.snapshot) });
  return record.calls.flatMap((logged) => {
    const replayed = callPool(pool, logged.call, logged.nowMs);
    return isSame(replayed, logged.effects) ? [] : [{ logged, replayed }];
  });
}

/** Compares data by value. */
function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => isSame(Reflect.get(a, key), Reflect.get(b, key)));
}
