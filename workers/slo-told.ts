import { REFUSAL_REASONS } from "../src/slo/slo-counts.ts";
import type { SloEvent } from "../src/slo/slo-counts.ts";
import type { Call } from "./call.ts";

/** What became of a request, and by which of its tenant's classes that is judged. */
export interface SloTold {
  readonly className: string;
  readonly event: SloEvent;
}

/**
 * Says what became of a call, once that is certain; `undefined` where it says nothing of any promise: its
 * client gave up while it waited, or it was itself at fault.
 */
export function sloToldOf({ promise, record }: Call): SloTold | undefined {
  const { className } = promise;
  const { attainment, missCause: cause, isInProfile = true, rejectedFor } = record;
  if (attainment !== undefined) {
    const event = {
      kind: "ended",
      attainment,
      ...(cause !== undefined && { cause }),
      isInProfile,
    } as const;
    return { className, event };
  }
  const reason = REFUSAL_REASONS.find((candidate) => candidate === rejectedFor);
  if (reason === undefined || record.attempts > 0) return undefined;
  // What is tighter than the promise was a wish, and to refuse it breaks no promise.
  const isOurs = record.isRefusedByUs && promise.targets === promise.promised;
  return { className, event: { kind: "refused", reason, isOurs } };
}
