import { upstreamFailure } from "../src/protocol/upstream-problem.ts";
import { TokenStream } from "../src/streaming/token-stream.ts";
import type { Call } from "./call.ts";
import type { ClientStream } from "./client-stream.ts";
import type { ReceiveAnswer } from "./reception.ts";
import type { RelayLimits } from "./relay.ts";
import { relay } from "./relay.ts";

const RELAY_LIMITS: RelayLimits = { stallMs: 10_000, unreadMs: 60_000, finishGraceMs: 2_000 };

/** Passes an answer on token by token. */
export function receiveStreamed(call: Call, client: ClientStream): ReceiveAnswer {
  const { watch, record, timeline } = call;
  return async (body, line) => {
    const stream = new TokenStream({
      modelId: call.model.modelId,
      choiceCount: call.choiceCount,
      includeUsage: call.includeUsage,
    });
    record.stream = stream;
    const parties = { stream, client, watch, timeline, line };
    const lastText = await relay(body, parties, RELAY_LIMITS);
    record.usage = stream.usage;
    if (stream.phase === "broken" && !stream.hasReleased) {
      const { problem = { code: "upstream_error" } } = stream;
      return { kind: "unusable", fault: { ...upstreamFailure(true), problem } };
    }
    record.problem = stream.problem;
    return {
      kind: stream.phase === "broken" ? "broken" : "complete",
      deliver: () => client.end(lastText),
    };
  };
}
