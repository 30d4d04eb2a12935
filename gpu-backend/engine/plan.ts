import type { Batch } from "./batch.ts";
import type { GenerateEvent } from "./generate-request.ts";

/** How a request ends before anything is done for it. */
export type TurnedAway = Extract<GenerateEvent, { kind: "refused" | "failed" }>;

/** What the next step computes, and what became of requests while it was decided. */
export interface Plan {
  /** `undefined`: there is nothing to do until the next `submit` or `kvArrived`. */
  readonly batch: Batch | undefined;
  readonly events: GenerateEvent[];
}
