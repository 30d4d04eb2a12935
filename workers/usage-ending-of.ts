import type { ServedModel, UsageEnding } from "../src/tenants/usage-ending.ts";
import type { Call } from "./call.ts";

/**
 * What a call took of its tenant's tokens that has an answer, be it broken. Without the replica's own
 * counts a chunk is a token, and of an answer that came whole nobody can say what was made of it.
 */
export function endingOfAnswer(call: Call): UsageEnding {
  return { ...tokensOfAnswer(call), ...servedOf(call) };
}

/** Its tenant may have let another model answer, whose price may be another one than was reserved. */
function servedOf({ target, fallbacks }: Call): { readonly served?: ServedModel } {
  if (fallbacks.length === 0) return {};
  const { model, pricing } = target;
  return { served: { modelId: model.modelId, ...(pricing !== undefined && { pricing }) } };
}

function tokensOfAnswer({ record, ...estimate }: Call): UsageEnding {
  const { usage, stream, interrupted } = record;
  if (usage !== undefined) {
    return {
      kind: "counted",
      promptTokens: usage.prompt_tokens,
      outputTokens: usage.completion_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    };
  }
  if (stream === undefined) return { kind: "unknown" };
  const { prompt_tokens: promptTokens = estimate.promptTokens } = interrupted?.continuation ?? {};
  return { kind: "estimated", promptTokens, outputTokens: stream.outputTokens, cachedTokens: 0 };
}

/**
 * What a call took that ends without an answer: nothing when it never reached a replica, and nothing
 * but the request where a replica failed. Who leaves has made one compute all the same, and who has a part
 * of an answer that nobody could go on with has that.
 */
export function endingOfFailure(call: Call): UsageEnding {
  const { record, watch } = call;
  if (record.attempts === 0) return { kind: "refunded" };
  const hasPart = record.interrupted !== undefined;
  if (watch.reason === "client-gone" || hasPart) return endingOfAnswer(call);
  return { kind: "counted", promptTokens: 0, outputTokens: 0, cachedTokens: 0 };
}
