import * as z from "zod";
import { assert } from "../src/base/assert.ts";
import { partsOfShardName } from "../src/tenants/tenant-shards.ts";
import { ExportProgress } from "../src/tenants/export-progress.ts";
import { toUsageLine } from "./usage-line.ts";
import { logLine } from "./log.ts";
import type { StoredUsage } from "./stored-usage.ts";
import type { UsageSink } from "./usage-sinks.ts";
import { withinMs } from "./within-ms.ts";

const PROGRESS_PREFIX = "usage-sent:";
const NAME_KEY = "usage-tenant";

/** A queue takes at most 100 messages at once, and 256 KB: a line has less than one. */
const LINES_PER_BATCH = 100;
/** Of one alarm; what is left waits for the next one, so that rows whose holders are gone are not kept waiting. */
const BATCHES_MAX = 100;
/** Who takes longer has failed, though what was sent may arrive. */
const SEND_MS_MAX = 30_000;

interface Outlet {
  readonly sink: UsageSink;
  readonly progress: ExportProgress;
}

/**
 * Tells a tenant's counted requests to whatever is bound, in order and in batches, each at least once:
 * how far each sink is is stored once it has taken a batch. Sinks wait for none of the others.
 */
export class UsageOutbox {
  readonly #storage: DurableObjectStorage;
  readonly #outlets: readonly Outlet[];
  readonly #name: string;

  constructor({ id, storage }: DurableObjectState, sinks: readonly UsageSink[]) {
    this.#storage = storage;
    this.#outlets = sinks.map((sink) => {
      const stored = storage.kv.get(PROGRESS_PREFIX + sink.name);
      return { sink, progress: new ExportProgress(SentNumber.parse(stored)) };
    });
    this.#name = sinks.length === 0 ? "" : nameOf(id, storage);
  }

  /** Up to this number no row is needed any more; `Infinity` where nothing is bound. */
  get sentNumber(): number {
    return Math.min(Infinity, ...this.#outlets.map(({ progress }) => progress.sentNumber));
  }

  /** When `send` has something to do; `Infinity` while it has not. */
  nextAtMs(lastNumber: number, nowMs: number): number {
    const times = this.#outlets.map(({ progress }) => progress.nextAtMs(lastNumber, nowMs));
    return Math.min(Infinity, ...times);
  }

  /** Sends what is due, up to a number that is on disk: another life might give a later one anew. */
  async send(usage: StoredUsage, lastNumber: number): Promise<void> {
    await Promise.all(this.#outlets.map((outlet) => this.#sendTo(outlet, usage, lastNumber)));
  }

  async #sendTo(outlet: Outlet, usage: StoredUsage, lastNumber: number): Promise<void> {
    const { sink, progress } = outlet;
    for (let batch = 0; batch < BATCHES_MAX && progress.sentNumber < lastNumber; batch += 1) {
      if (!progress.mayTry(Date.now())) return;
      const count = progress.passOver(usage.ledger.state.firstKeptNumber);
      if (count > 0) this.#log(sink, "usage-export-dropped", { count });
      const linesMax = Math.min(LINES_PER_BATCH, lastNumber - progress.sentNumber);
      const rows = usage.settledAfter(progress.sentNumber, linesMax);
      const sentNumber = rows.at(-1)?.number;
      assert(sentNumber !== undefined, "what was counted is kept until it is sent");
      const { tenantId: tenant, shard } = partsOfShardName(this.#name);
      const lines = rows.map((row) => ({ tenant, shard, ...toUsageLine(row) }));
      try {
        // oxlint-disable-next-line no-await-in-loop -- in order, and one batch in memory
        await withinMs(sink.send(lines), SEND_MS_MAX);
      } catch (error) {
        progress.failed(Date.now());
        const waiting = lastNumber - progress.sentNumber;
        const { failures } = progress;
        this.#log(sink, "usage-export-failed", { waiting, failures, details: String(error) });
        return;
      }
      progress.sent(sentNumber);
      this.#store(outlet);
    }
  }

  /** Unconfirmed: should it be lost, the batch is sent once more. */
  #store({ sink, progress }: Outlet): void {
    const key = PROGRESS_PREFIX + sink.name;
    const put = this.#storage.put(key, progress.sentNumber, { allowUnconfirmed: true });
    put.catch((error: unknown) => {
      this.#log(sink, "usage-export-not-stored", { details: String(error) });
    });
  }

  #log({ name: sink }: UsageSink, event: string, fields: Record<string, string | number>): void {
    const { tenantId, shard } = partsOfShardName(this.#name);
    logLine("error", event, { tenantId, shard, sink, ...fields });
  }
}

const SentNumber = z.int().min(0).default(0);

/** An object that was woken by an alarm alone need not be told its name, so it is kept. */
function nameOf(id: DurableObjectId, storage: DurableObjectStorage): string {
  const stored = z.string().optional().parse(storage.kv.get(NAME_KEY));
  if (id.name === undefined) return stored ?? id.toString();
  if (stored !== id.name) storage.kv.put(NAME_KEY, id.name);
  return id.name;
}
