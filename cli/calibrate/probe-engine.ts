import { measurePrompts } from "../bench/probe-server.ts";
import { promptText } from "../bench/prompt-text.ts";
import type { AnswerEnd } from "../bench/answer-end.ts";
import type { AnswerStreams } from "../bench/stream-answer.ts";
import { WALL_CLOCK } from "../bench/wall-clock.ts";
import { CommandFailure } from "../command.ts";
import type { MeasureOptions } from "./measure-engine.ts";

/** Asks an engine over HTTP, each time with a prompt of its own. Throws a `CommandFailure` where there is no answer. */
export async function probeEngine(
  streams: AnswerStreams,
  token: string | undefined,
  signal: AbortSignal,
): Promise<MeasureOptions["ask"]> {
  const asker = { token, className: undefined };
  const measure = await measurePrompts(streams, asker, signal);
  // Prompts of another run are in its cache as well.
  const seed = Date.now() % 2 ** 31;
  let index = 0;
  return async ({ promptTokens, outputTokens }) => {
    index += 1;
    const arrival = { index, atMs: 0, tenantIndex: 0, promptTokens, outputTokens };
    const prompt = promptText(arrival, measure, seed);
    const chunksAtMs: number[] = [];
    const sentAtMs = WALL_CLOCK.readNowMs();
    const end = await streams.ask(
      { ...asker, prompt, outputTokens },
      (atMs) => chunksAtMs.push(atMs),
      signal,
    );
    if (end.kind !== "answered") throw new CommandFailure(troubleOf(end));
    return {
      sentAtMs,
      chunksAtMs,
      inputTokens: end.inputTokens ?? promptTokens,
      outputTokens: end.outputTokens ?? chunksAtMs.length,
    };
  };
}

function troubleOf(end: Exclude<AnswerEnd, { kind: "answered" }>): string {
  if (end.kind === "failed") return `A request failed: ${end.reason}`;
  if (end.kind === "cancelled") return "Stopped before all was measured; nothing is written";
  const said = `${end.status} ${end.code ?? ""}`.trim();
  return `It refused a request (${said}): is --max-sequences or --kv-tokens too high?`;
}
