import type { Context } from "hono";
import { toTenths } from "../../src/protocol/answer-metrics.ts";
import { CACHE_HIT, CLIENT_HEADERS } from "../../src/protocol/headers.ts";
import type { PrefillAnswer } from "../../src/protocol/prefill-answer.ts";
import { monotonicNowMs } from "../clock.ts";
import type { GenerateRequest } from "../engine/generate-request.ts";
import type { BrokenPart } from "./answer.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import type { Generation } from "./generation.ts";
import { problemOfBroken } from "./problem-of-broken.ts";
import { ProblemError } from "./problem-error.ts";
import type { Arrival } from "./read-request.ts";

/** What became of a prompt that is to be computed for another engine. */
type Prefilled =
  | {
      readonly kind: "prefilled";
      readonly cachedTokens: number;
      readonly heldTokens: number;
      readonly queueMs: number;
      readonly prefillMs: number;
    }
  | BrokenPart;

/** A prompt in the engine's hands. */
export interface RunningPrefill {
  readonly generation: Generation;
  readonly prefilled: Promise<Prefilled>;
  /** Ends it, if it still runs. */
  cancel(): void;
}

const NOTHING = { cachedTokens: 0, heldTokens: 0, queueMs: 0, prefillMs: 0 } as const;

/**
 * Has the engine compute the prompt of a generation and nothing else. Of one that could not use that, since it
 * has several prompts or looks at each token of its own, nothing is computed.
 */
export function submitPrefill(
  context: AppContext,
  generation: Generation,
  arrival: Arrival,
): RunningPrefill {
  const { engine } = context;
  // Without a lender nobody could fetch what is held.
  const request = context.kvLender && requestOf(generation);
  if (request === undefined) {
    const prefilled = Promise.resolve({ kind: "prefilled", ...NOTHING } as const);
    return { generation, prefilled, cancel: () => undefined };
  }
  const submittedAtMs = monotonicNowMs();
  let startedAtMs: number | undefined;
  const prefilled = new Promise<Prefilled>((resolve) => {
    engine.submit(request, (event, atMs) => {
      if (event.kind === "started") startedAtMs = atMs;
      if (event.kind === "refused" || event.kind === "failed") resolve(event);
      if (event.kind !== "finished") return;
      if (event.reason === "cancelled") {
        resolve({ kind: "cancelled" });
        return;
      }
      const { cachedTokens, heldTokens = 0 } = event;
      const fromMs = startedAtMs ?? atMs;
      const times = { queueMs: fromMs - submittedAtMs, prefillMs: atMs - fromMs };
      resolve({ kind: "prefilled", cachedTokens, heldTokens, ...times });
    });
  });
  void prefilled.then((part) => logPrefill(context, { generation, arrival, part }));
  return { generation, prefilled, cancel: () => engine.cancel(request.id) };
}

/** Answers with what is held, or with the problem of why nothing is. */
export async function answerPrefill(
  context: AppContext,
  c: Context<EngineEnvironment>,
  { generation, prefilled }: RunningPrefill,
): Promise<Response> {
  const part = await prefilled;
  if (part.kind !== "prefilled") throw new ProblemError(problemOfBroken(context, generation, part));
  const { cachedTokens, heldTokens, queueMs, prefillMs } = part;
  const answer: PrefillAnswer = {
    object: "prefill",
    prompt_tokens: promptTokensOf(generation),
    cached_tokens: cachedTokens,
    held_tokens: heldTokens,
  };
  const timing = [
    `queue;dur=${toTenths(queueMs)}`,
    `prefill;dur=${toTenths(prefillMs)}`,
    ...(cachedTokens > 0 ? [CACHE_HIT] : []),
  ];
  return c.json(answer, 200, { [CLIENT_HEADERS.serverTiming]: timing.join(", ") });
}

/** The one prompt of all choices, with what there is of its output; `undefined` where it is of no use elsewhere. */
function requestOf({
  requests: [request],
  requests,
  choicesPerPrompt,
  parameters,
}: Generation): GenerateRequest | undefined {
  if (request === undefined || choicesPerPrompt !== requests.length) return undefined;
  if (request.promptLogprobsTop !== undefined) return undefined;
  // Nothing is chosen, so nothing has to be followed or told.
  const { constraint: _, logprobsTop: __, ...prefilled } = request;
  const { token_ids: tokenIds = [] } = parameters.sluice_continuation ?? {};
  // The last one is computed once more where the output goes on.
  const emittedTokens = tokenIds.slice(0, -1);
  return {
    ...prefilled,
    prefillOnly: true,
    ...(emittedTokens.length > 0 && { emittedTokens }),
  };
}

/** Those of all prompts, each once. */
function promptTokensOf({ requests, choicesPerPrompt }: Generation): number {
  return requests
    .filter((_, index) => index % choicesPerPrompt === 0)
    .reduce((sum, { promptTokens }) => sum + promptTokens.length, 0);
}

function logPrefill(
  { log }: AppContext,
  ended: {
    readonly generation: Generation;
    readonly arrival: Arrival;
    readonly part: Prefilled;
  },
): void {
  const { generation, arrival, part } = ended;
  const { kind: outcome, ...detail } = part;
  log(outcome === "failed" ? "error" : "info", "request-ended", {
    requestId: arrival.requestId,
    answerId: generation.identity.id,
    operation: "prefill",
    outcome,
    promptTokens: promptTokensOf(generation),
    ...detail,
    durationMs: toTenths(monotonicNowMs() - arrival.arrivedAtMs),
  });
}
