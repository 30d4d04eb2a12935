import type { EndedUsage } from "../../src/protocol/engine-usage.ts";
import { monotonicNowMs } from "../clock.ts";
import type { GenerateRequest } from "../engine/generate-request.ts";
import { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import { StopStrings } from "../engine/tokenizer/stop-strings.ts";
import { Answer, isBroken } from "./answer.ts";
import { AnswerGroup } from "./answer-group.ts";
import { AnswerText } from "./answer-text.ts";
import type { AppContext } from "./app-context.ts";
import type { Generation } from "./generation.ts";
import { type EndedGeneration, logEnding } from "./log-ending.ts";
import { errorTypeOf } from "./problem-of-broken.ts";
import type { Arrival } from "./read-request.ts";
import { RequestTiming } from "./request-timing.ts";
import { resumeAnswer } from "./resume-answer.ts";

/** One of the answers to a request, and what is known about it. */
export interface Choice {
  readonly request: GenerateRequest;
  readonly answer: Answer;
  readonly timing: RequestTiming;
}

/** A generation in the engine's hands. */
export interface RunningGeneration {
  readonly generation: Generation;
  readonly choices: readonly Choice[];
  readonly answers: AnswerGroup;
  /** Ends whatever of it still runs. */
  cancel(): void;
}

/**
 * Submits all choices of a request to the engine; what comes back goes to the answers, the metrics
 * and, when the last one has ended, to one line of the log. A choice that breaks ends the others.
 */
export function submitGeneration(
  context: AppContext,
  generation: Generation,
  arrival: Arrival,
): RunningGeneration {
  const { engine } = context;
  const choices = choicesOf(context, generation, arrival);
  const answers = new AnswerGroup(choices.map((choice) => choice.answer));
  const cancel = (): void => {
    for (const { request } of choices) engine.cancel(request.id);
  };
  let openChoices = choices.length;
  for (const [index, { request, answer, timing }] of choices.entries()) {
    engine.submit(request, (event, atMs) => {
      if (event.kind === "started") timing.started(atMs);
      if (event.kind === "token" && !answer.isComplete) timing.token(atMs);
      answers.hear(index, event);
      const { ending } = answer;
      if (ending === undefined) return;
      if (ending.kind === "finished") timing.finished(ending.reason);
      if (ending.kind === "cancelled") timing.finished("cancelled");
      openChoices -= 1;
      if (openChoices > 0) {
        if (isBroken(ending)) cancel();
        return;
      }
      const ended = { generation, arrival, choices, broken: answers.broken };
      logEnding(context.log, ended, atMs);
      if (ended.broken?.kind !== "refused") context.endedRequests.note(usageOf(ended));
      observeEnding(context, ended, atMs);
    });
  }
  return { generation, choices, answers, cancel };
}

/** What all choices have cost together; those of one prompt have computed it once. */
function usageOf({ generation, arrival, choices }: EndedGeneration): EndedUsage {
  const usage = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 };
  for (const [index, { request, answer }] of choices.entries()) {
    usage.completion_tokens += answer.outputTokens;
    if (index % generation.choicesPerPrompt !== 0) continue;
    usage.prompt_tokens += request.promptTokens.length;
    usage.cached_tokens += answer.cachedTokens;
  }
  return { request_id: arrival.requestId, ...usage };
}

function observeEnding(context: AppContext, ended: EndedGeneration, atMs: number): void {
  const { generation, arrival, choices, broken } = ended;
  context.metrics.genAi.observe({
    operation: generation.operation,
    model: generation.model.name,
    durationMs: atMs - arrival.arrivedAtMs,
    ttftMs: choices[0]?.timing.durations(atMs).ttftMs,
    timesPerTokenMs: choices.flatMap(({ timing }) => timing.timePerTokenMs ?? []),
    errorType: broken && errorTypeOf(context, generation, broken),
  });
}

function choicesOf(
  context: AppContext,
  generation: Generation,
  { arrivedAtMs }: Arrival,
): readonly Choice[] {
  const instants = { arrivedAtMs, submittedAtMs: monotonicNowMs() };
  const { format, parameters } = generation;
  const { sluice_continuation: continuation } = parameters;
  return generation.requests.map((request) => {
    const answer = newAnswer(generation, () => context.engine.cancel(request.id));
    return {
      request:
        continuation === undefined
          ? request
          : resumeAnswer(continuation, request, { answer, format }),
      answer,
      timing: new RequestTiming(context.metrics, instants),
    };
  });
}

function newAnswer({ model, parameters }: Generation, cancel: () => void): Answer {
  const isIncluded = parameters.include_stop_str_in_output;
  const silentTokenIds = isIncluded ? [] : [...model.endTokenIds, ...parameters.stop_token_ids];
  const text = new AnswerText({
    detokenizer: new Detokenizer(model.tokenBytes),
    stopStrings: new StopStrings(parameters.stop, { isIncluded }),
    silentTokenIds: new Set(silentTokenIds),
    outputTokensMin: parameters.min_tokens,
  });
  return new Answer(text, cancel);
}
