import type { GenerateRequest } from "../engine/generate-request.ts";
import type { EngineEvent } from "../thread-messages.ts";
import type { BrokenPart } from "./answer.ts";
import type { AppContext } from "./app-context.ts";
import { type BrokenRequest, errorTypeOf } from "./problem-of-broken.ts";
import type { Arrival } from "./read-request.ts";
import { RequestTiming } from "./request-timing.ts";
import { monotonicNowMs } from "../clock.ts";

/** What became of the texts of one request: a vector each, or what broke the first that broke. */
type Embedded =
  | { readonly kind: "vectors"; readonly vectors: readonly Float32Array[] }
  | BrokenPart;

/** Texts in the engine's hands. */
export interface RunningEmbeddings {
  readonly embedded: Promise<Embedded>;
  /** Ends whatever of them still runs. */
  cancel(): void;
}

/** Submits texts to the engine. They stand or fall together; the log has one line of them. */
export function submitEmbeddings(
  context: AppContext,
  asked: BrokenRequest,
  arrival: Arrival,
): RunningEmbeddings {
  const { requests } = asked;
  const { engine, metrics } = context;
  const cancel = (): void => {
    for (const { id } of requests) engine.cancel(id);
  };
  const instants = { arrivedAtMs: arrival.arrivedAtMs, submittedAtMs: monotonicNowMs() };
  const vectors = new Map<string, Float32Array>();
  let broken: BrokenPart | undefined;
  let openTexts = requests.length;
  const embedded = new Promise<Embedded>((resolve) => {
    const end = (atMs: number): void => {
      logEnding(context, { requests, arrival, broken }, atMs);
      if (broken?.kind !== "refused") {
        context.endedRequests.note({
          request_id: arrival.requestId,
          prompt_tokens: requests.reduce((sum, { promptTokens }) => sum + promptTokens.length, 0),
          cached_tokens: 0,
          completion_tokens: 0,
        });
      }
      metrics.genAi.observe({
        operation: "embeddings",
        model: asked.model.name,
        durationMs: atMs - arrival.arrivedAtMs,
        ttftMs: undefined,
        timesPerTokenMs: [],
        errorType: broken && errorTypeOf(context, asked, broken),
      });
      resolve(broken ?? { kind: "vectors", vectors: [...inOrder(requests, vectors)] });
    };
    for (const request of requests) {
      const timing = new RequestTiming(metrics, instants);
      engine.submit(request, (event, atMs) => {
        if (event.kind === "started") timing.started(atMs);
        if (event.kind === "embedded") vectors.set(event.id, event.vector);
        if (event.kind === "finished") timing.finished(event.reason);
        if (!isTerminal(event)) return;
        openTexts -= 1;
        broken ??= brokenBy(event);
        if (openTexts === 0) end(atMs);
        else if (broken !== undefined) cancel();
      });
    }
  });
  return { embedded, cancel };
}

type TerminalEvent = Extract<EngineEvent, { kind: "finished" | "refused" | "failed" }>;

function isTerminal(event: EngineEvent): event is TerminalEvent {
  return event.kind === "finished" || event.kind === "refused" || event.kind === "failed";
}

function brokenBy(event: TerminalEvent): BrokenPart | undefined {
  if (event.kind !== "finished") return event;
  return event.reason === "cancelled" ? { kind: "cancelled" } : undefined;
}

function inOrder(
  requests: readonly GenerateRequest[],
  vectors: ReadonlyMap<string, Float32Array>,
): readonly Float32Array[] {
  return requests.flatMap(({ id }) => vectors.get(id) ?? []);
}

function logEnding(
  context: AppContext,
  ended: {
    readonly requests: readonly GenerateRequest[];
    readonly arrival: Arrival;
    readonly broken: BrokenPart | undefined;
  },
  atMs: number,
): void {
  const { requests, arrival, broken } = ended;
  context.log(broken?.kind === "failed" ? "error" : "info", "request-ended", {
    requestId: arrival.requestId,
    outcome: broken?.kind ?? "embedded",
    texts: requests.length,
    promptTokens: requests.reduce((sum, { promptTokens }) => sum + promptTokens.length, 0),
    durationMs: Math.round((atMs - arrival.arrivedAtMs) * 10) / 10,
  });
}
