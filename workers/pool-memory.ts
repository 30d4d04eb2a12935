import { keepState, reviveState } from "../src/pool/kept-state.ts";
import { POOL_LIMITS } from "../src/pool/pool-limits.ts";
import { Pool } from "../src/pool/pool.ts";
import { logLine } from "./log.ts";

const KEPT_KEY = "pool";
/** The runtime ends an object that nobody has asked anything for ten seconds. */
const KEEP_AFTER_MS = 4_000;

/** The life that a pool begins. */
interface PoolLife {
  readonly epoch: string;
  readonly startedAtMs: number;
  readonly seed: number;
}

/**
 * Carries what a pool has learned over the end of its object, which the runtime brings about whenever it is
 * idle: forecasts, what its tenants had, who failed. It is written when nobody waits and nothing runs, so
 * never in the way of a request; an object that ends in the midst of its work relearns.
 */
export class PoolMemory {
  readonly #storage: DurableObjectStorage;
  #isDue = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Begins a life of the pool with what an earlier one has left. */
  begin(life: PoolLife): Pool {
    const text = this.#storage.kv.get(KEPT_KEY);
    if (typeof text !== "string") return new Pool(life);
    const { startedAtMs } = life;
    const state = reviveState(text, { startedAtMs, relearnMs: POOL_LIMITS.relearnMs });
    if (state === undefined) return new Pool(life);
    try {
      const pool = new Pool({ ...life, state });
      pool.checkInvariants();
      return pool;
    } catch (error) {
      logLine("error", "pool-memory", { details: String(error) });
      return new Pool(life);
    }
  }

  /** The pool has learned something: has it written down before its object may end. */
  learned(pool: Pool): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => this.#keep(pool), KEEP_AFTER_MS);
  }

  #keep(pool: Pool): void {
    this.#isDue = false;
    const { leases, waiting } = pool.state;
    if (leases.size > 0 || waiting.size > 0) {
      this.learned(pool);
      return;
    }
    try {
      const text = keepState(pool.state, Date.now());
      if (text === undefined) this.#storage.kv.delete(KEPT_KEY);
      else this.#storage.kv.put(KEPT_KEY, text);
    } catch (error) {
      // A life that has to relearn is no worse than it was.
      logLine("error", "pool-memory", { details: String(error) });
    }
  }
}
