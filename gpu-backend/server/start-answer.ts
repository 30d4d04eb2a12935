import { unreachable } from "../../src/base/assert.ts";
import { monotonicNowMs } from "../clock.ts";
import { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import { StopStrings } from "../engine/tokenizer/stop-strings.ts";
import type { EngineListener } from "../engine-client.ts";
import { Answer, type BrokenPart, type FinishedPart } from "./answer.ts";
import { AnswerText } from "./answer-text.ts";
import type { AppContext } from "./app-context.ts";
import type { Intake } from "./chat-intake.ts";
import { RequestTiming } from "./request-timing.ts";

/** Submits a request to the engine; what comes back goes to the answer, the metrics and the log. */
export function startAnswer(
  context: AppContext,
  intake: Intake,
  arrival: { readonly requestId: string; readonly arrivedAtMs: number },
): Answer {
  const { engine, metrics } = context;
  const { chat, model, request } = intake;
  const text = new AnswerText({
    detokenizer: new Detokenizer(model.tokenBytes),
    stopStrings: new StopStrings(chat.stop),
    endTokenIds: new Set(model.endTokenIds),
  });
  const answer = new Answer(text, () => engine.cancel(request.id));
  const timing = new RequestTiming(metrics, {
    arrivedAtMs: arrival.arrivedAtMs,
    submittedAtMs: monotonicNowMs(),
  });
  const listener: EngineListener = (event, atMs) => {
    if (event.kind === "started") timing.started(atMs);
    if (event.kind === "token" && !answer.isComplete) timing.token(atMs);
    answer.hear(event);
    if (answer.ending === undefined) return;
    if (answer.ending.kind === "finished") timing.finished(answer.ending.reason);
    if (answer.ending.kind === "cancelled") timing.finished("cancelled");
    const level = answer.ending.kind === "failed" ? "error" : "info";
    context.log(level, "request-ended", {
      requestId: arrival.requestId,
      answerId: request.id,
      ...describeEnding(answer.ending),
      ...timing.durations(atMs),
    });
  };
  engine.submit(request, listener);
  return answer;
}

function describeEnding(ending: FinishedPart | BrokenPart): Record<string, unknown> {
  switch (ending.kind) {
    case "finished":
      return { outcome: ending.reason, ...ending.counts };
    case "refused":
      return { outcome: "refused", reason: ending.reason };
    case "failed":
      return { outcome: "failed", message: ending.message };
    case "cancelled":
      return { outcome: "cancelled" };
  }
  return unreachable(ending);
}
