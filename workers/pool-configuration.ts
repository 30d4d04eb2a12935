import type { PoolId } from "../src/protocol/ids.ts";
import type { LivePool } from "../src/tenants/live-configuration.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { logLine } from "./log.ts";
import { withinMs } from "./within-ms.ts";

/** A configuration older than this is read again, behind the requests that still use it. */
const REFRESH_AFTER_MS = 5_000;
/** A Directory that failed is left alone for so long, or every request would knock again. */
const RETRY_AFTER_MS = 1_000;
/** A Directory that takes longer than this counts as away. */
const READ_MS_MAX = 2_000;

/** What a `PoolConfiguration` works with. */
export interface PoolConfigurationOptions {
  readonly poolId: PoolId;
  readonly env: Env;
  /** Called with every new version, before those who wait for it go on. */
  readonly onChange: (pool: LivePool) => void;
}

/**
 * A pool's own copy of its configuration. Once it has been read it stays in force while the
 * Directory is away. A pool that the Directory does not know has no replicas and no queue.
 */
export class PoolConfiguration {
  readonly #options: PoolConfigurationOptions;
  /** Of the version in force; 0 stands for a pool that is in no configuration. */
  #version: number | undefined;
  #live: LivePool | undefined;
  #readAtMs = -Infinity;
  #triedAtMs = -Infinity;
  #reading: Promise<void> | undefined;

  constructor(options: PoolConfigurationOptions) {
    this.#options = options;
  }

  get poolId(): PoolId {
    return this.#options.poolId;
  }

  /** What is in force, of a pool that is in a configuration. */
  get live(): LivePool | undefined {
    return this.#live;
  }

  /**
   * Sees to it that a configuration is in force, and has an old one read again. Waits for the
   * Directory only the first time, and rejects when it does not answer within `limitMs` even then.
   */
  async ensure(limitMs = READ_MS_MAX): Promise<void> {
    if (this.#version === undefined) {
      await withinMs(this.#read(), Math.min(limitMs, READ_MS_MAX));
    } else if (this.#isOld(Date.now())) {
      this.#read().catch((error: unknown) => {
        const { poolId } = this.#options;
        logLine("error", "pool-configuration-unread", { poolId, details: String(error) });
      });
    }
  }

  /** Waits for the configuration as it is now, unless it was read in the last `ageMsMax`. */
  async refresh(ageMsMax: number): Promise<void> {
    if (Date.now() - this.#readAtMs > ageMsMax) await this.#read();
  }

  #isOld(nowMs: number): boolean {
    return nowMs - this.#readAtMs > REFRESH_AFTER_MS && nowMs - this.#triedAtMs > RETRY_AFTER_MS;
  }

  #read(): Promise<void> {
    // One reading at a time, which everybody shares: so versions come in order.
    this.#reading ??= this.#readOnce().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    const { poolId, env, onChange } = this.#options;
    this.#triedAtMs = Date.now();
    const directory = env.DIRECTORY.getByName(DIRECTORY_NAME);
    const live = await withinMs(directory.poolConfiguration(poolId), READ_MS_MAX);
    this.#readAtMs = Date.now();
    const version = live?.version ?? 0;
    if (version === this.#version) return;
    this.#version = version;
    this.#live = live?.pool;
    onChange(live?.pool ?? { poolId, engine: "sluice", replicas: [], queueMax: 0 });
  }
}
