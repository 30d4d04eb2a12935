import type { Rejection } from "../src/pool/offer.ts";
import { clampedBody } from "./request-body.ts";
import type { Call } from "./call.ts";

/** Has an answer cut short, as its tenant's overload ladder wants it. */
export function clampOutput(call: Call, outputTokensMax: number): void {
  const { target } = call;
  const upstreamBody = clampedBody(target.upstreamBody, outputTokensMax);
  call.target = { ...target, outputTokensMax, upstreamBody };
  note(call, `clamp_max_tokens=${outputTokensMax}`);
}

/**
 * Sends a refused call to the model that its tenant's overload ladder asks instead; false where it asks
 * none. A limit that was put on the output before holds there as well.
 */
export function fallBack(call: Call, { fallbackModelId }: Rejection): boolean {
  const fallback = call.fallbacks.find(({ modelId }) => modelId === fallbackModelId);
  if (fallback === undefined) return false;
  const next = fallback.prepare();
  const { outputTokensMax = Infinity } = call.target;
  call.target = next;
  if (outputTokensMax < (next.outputTokensMax ?? Infinity)) {
    const upstreamBody = clampedBody(next.upstreamBody, outputTokensMax);
    call.target = { ...next, outputTokensMax, upstreamBody };
  }
  call.record.modelId = next.model.modelId;
  call.record.attemptsElsewhere = call.record.attempts;
  note(call, `fallback_model=${next.model.modelId}`);
  return true;
}

function note({ record, timeline }: Call, step: string): void {
  record.degraded.push(step);
  timeline.degraded();
}
