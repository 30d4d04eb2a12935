import * as z from "zod";
import { MISS_CAUSES } from "../src/slo/miss-cause.ts";
import { REFUSAL_REASONS } from "../src/slo/slo-counts.ts";
import type { SloEvent } from "../src/slo/slo-counts.ts";
import type { SloBucket, SloSums } from "../src/slo/slo-record.ts";
import { SloRecord } from "../src/slo/slo-record.ts";
import { logLine } from "./log.ts";

const PREFIX = "slo:";
/** What was counted within so long before an object died without a word is forgotten. */
const SAVE_DELAY_MS = 2_000;
/** Of one call of the storage. */
const KEYS_PER_CALL_MAX = 128;

const Count = z.int().min(0);
const StoredBucket = z.strictObject({
  className: z.string(),
  ring: Count,
  place: Count,
  number: Count,
  counts: z.strictObject({
    good: Count,
    degraded: Count,
    missed: Count,
    excluded: Count,
    inProfile: Count,
    refusedInProfile: Count,
    missedFor: z.record(z.enum(MISS_CAUSES), Count),
    refusedFor: z.record(z.enum(REFUSAL_REASONS), Count),
  }),
}) satisfies z.ZodType<SloBucket>;

/**
 * Keeps what became of a tenant's requests beyond the life of its object, a minute and an hour at a time. It
 * is read when it is first needed and written behind, at most every two seconds: a report may forget that
 * much, and costs no request anything.
 */
export class StoredSlo {
  readonly #storage: DurableObjectStorage;
  #record: SloRecord | undefined;
  #isDue = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  count(className: string, event: SloEvent, nowMs: number): void {
    this.#load().count(className, event, nowMs);
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => void this.#save(), SAVE_DELAY_MS);
  }

  sums(nowMs: number): SloSums[] {
    return this.#load().sums(nowMs);
  }

  /** What cannot be read was of another version, and a report without it is better than none. */
  #load(): SloRecord {
    this.#record ??= new SloRecord(
      [...this.#storage.kv.list({ prefix: PREFIX })].flatMap(([, stored]) => {
        const bucket = StoredBucket.safeParse(stored);
        return bucket.success ? [bucket.data] : [];
      }),
    );
    return this.#record;
  }

  async #save(): Promise<void> {
    this.#isDue = false;
    const changed = this.#load().takeChanged();
    try {
      for (let at = 0; at < changed.length; at += KEYS_PER_CALL_MAX) {
        const part = changed.slice(at, at + KEYS_PER_CALL_MAX);
        const rows = part.map((bucket) => [keyOf(bucket), bucket] as const);
        // Unconfirmed, or answers to others would be held until the disk has it.
        // oxlint-disable-next-line no-await-in-loop -- mostly one part, and each is to be stored whole
        await this.#storage.put(Object.fromEntries(rows), { allowUnconfirmed: true });
      }
    } catch (error) {
      logLine("error", "slo-not-stored", { details: String(error) });
    }
  }
}

function keyOf({ className, ring, place }: SloBucket): string {
  return `${PREFIX}${className}:${ring}:${place}`;
}
