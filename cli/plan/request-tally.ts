import type { Rejection } from "../../src/pool/offer.ts";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import { sequenceTokensMax } from "../../simulator/hardware-profile.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import type { SimulatedCallOptions } from "../../simulator/simulated-call.ts";

/** What a tenant's figures do not say by themselves: why it was refused, and what became of too long a request. */
export interface RequestNotes {
  readonly refusedBy: Readonly<Partial<Record<Rejection["reason"], number>>>;
  /** Prompts that leave no replica room for a single token. */
  readonly tooLongPrompts: number;
  /** Answers that ended early since their replica had no room for more. */
  readonly cutAnswers: number;
  /** Requests without an end when the simulation was over: nobody knows whether they were in time. */
  readonly unended: number;
}

type Notes = { -readonly [Key in keyof RequestNotes]: RequestNotes[Key] };

interface RequestTallyOptions {
  readonly tenants: number;
  readonly hardware: HardwareProfile;
  /** Requests that arrived in this window count. */
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Takes notes of each tenant's requests, over all runs of one size. */
export class RequestTally {
  readonly #options: RequestTallyOptions;
  readonly #notes: readonly Notes[];

  constructor(options: RequestTallyOptions) {
    this.#options = options;
    this.#notes = Array.from({ length: options.tenants }, () => ({
      refusedBy: {},
      tooLongPrompts: 0,
      cutAnswers: 0,
      unended: 0,
    }));
  }

  add(record: RequestRecord): void {
    const notes = this.#find(record);
    if (notes === undefined) return;
    const reason = record.rejection?.reason;
    if (reason !== undefined) {
      notes.refusedBy = { ...notes.refusedBy, [reason]: (notes.refusedBy[reason] ?? 0) + 1 };
    }
    if (record.timeline.ending === "length") notes.cutAnswers += 1;
  }

  addUnended(call: Pick<SimulatedCallOptions, "spec" | "arrivedAtMs">): void {
    const notes = this.#find(call);
    if (notes !== undefined) notes.unended += 1;
  }

  notesOf(tenantIndex: number): RequestNotes {
    const notes = this.#notes[tenantIndex];
    if (notes === undefined) throw new RangeError(`Expected a tenant, found ${tenantIndex}`);
    return notes;
  }

  /** The notes that a request belongs to; `undefined`: it does not count. Every request passes here once. */
  #find({
    spec,
    arrivedAtMs,
  }: Pick<SimulatedCallOptions, "spec" | "arrivedAtMs">): Notes | undefined {
    const { fromMs, untilMs, hardware } = this.#options;
    if (arrivedAtMs < fromMs || arrivedAtMs >= untilMs) return undefined;
    const notes = this.#notes[spec.tenantIndex];
    const isTooLong = spec.promptTokens >= sequenceTokensMax(hardware);
    if (notes !== undefined && isTooLong) notes.tooLongPrompts += 1;
    return notes;
  }
}
