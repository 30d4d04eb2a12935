import { tellCachedAtMost, withCachedAtMost } from "../src/protocol/cached-at-most.ts";
import { editMembers } from "../src/protocol/json-text.ts";
import { problemInAnswer, upstreamFailure } from "../src/protocol/upstream-problem.ts";
import type { Call } from "./call.ts";
import { keepAnswer } from "./kept-answers.ts";
import { readBody } from "./read-body.ts";
import type { Reception, ReceiveAnswer } from "./reception.ts";

/** Far above any text a model writes; what is larger is no answer. */
const ANSWER_BYTES_MAX = 16_777_216;

/** Passes an answer on when all of it is there; `answer` is called with its text. */
export function receiveWhole(call: Call, answer: (json: string) => void): ReceiveAnswer {
  return async (body) => {
    const json = await readText(body);
    const parsed = parseJson(json);
    const problem = problemInAnswer(parsed);
    const whole = call.operation.readAnswer(parsed);
    if (json === undefined || problem !== undefined || whole === undefined) {
      return unusable(problem);
    }
    const { operation, promise, target } = call;
    const { cachedTokensMax = Infinity } = call.record;
    call.record.usage = whole.usage && withCachedAtMost(whole.usage, cachedTokensMax);
    const told = cachedTokensMax < Infinity ? tellCachedAtMost(json, cachedTokensMax) : json;
    const aliased = editMembers(told, {
      model: JSON.stringify(target.model.modelId),
      ...(operation.tellsTier && { service_tier: JSON.stringify(promise.serviceTier) }),
    });
    keepAnswer(call, aliased);
    return { kind: "complete", deliver: async () => answer(aliased) };
  };
}

function unusable(problem = upstreamFailure(true).problem): Reception {
  return { kind: "unusable", fault: { ...upstreamFailure(true), problem } };
}

/** A body that breaks off is as good as none. */
async function readText(body: ReadableStream<Uint8Array>): Promise<string | undefined> {
  try {
    const bytes = await readBody(body, ANSWER_BYTES_MAX);
    return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJson(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}
