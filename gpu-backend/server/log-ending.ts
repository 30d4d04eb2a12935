import { unreachable } from "../../src/base/assert.ts";
import type { Log } from "../log.ts";
import type { BrokenPart, FinishedPart } from "./answer.ts";
import type { Generation } from "./generation.ts";
import type { Arrival } from "./read-request.ts";
import type { Choice } from "./submit-generation.ts";

/**
 * Writes the one line that the log has of a request: how it ended, what it cost and how long it
 * took, and nothing of what was said.
 */
export function logEnding(
  log: Log,
  ended: {
    readonly generation: Generation;
    readonly arrival: Arrival;
    readonly choices: readonly Choice[];
  },
  atMs: number,
): void {
  const { generation, arrival, choices } = ended;
  const endings = choices.flatMap(({ answer }) => answer.ending ?? []);
  // The choices that a broken one took with it are not how the request ended.
  const cause = endings.find(({ kind }) => kind === "failed" || kind === "refused");
  const decisive = cause ?? endings.find(({ kind }) => kind === "cancelled");
  log(decisive?.kind === "failed" ? "error" : "info", "request-ended", {
    requestId: arrival.requestId,
    answerId: generation.identity.id,
    isStream: generation.parameters.stream,
    choices: choices.length,
    ...(decisive === undefined ? describeFinished(endings) : describeBroken(decisive)),
    ...choices[0]?.timing.durations(atMs),
  });
}

function describeFinished(
  endings: readonly (FinishedPart | BrokenPart)[],
): Record<string, unknown> {
  const finished = endings.filter((ending) => ending.kind === "finished");
  const [first] = finished;
  return {
    outcome: [...new Set(finished.map((ending) => ending.reason))].toSorted().join("+"),
    promptTokens: first?.counts.promptTokens,
    cachedTokens: first?.counts.cachedTokens,
    outputTokens: finished.reduce((sum, { counts }) => sum + counts.outputTokens, 0),
  };
}

function describeBroken(ending: FinishedPart | BrokenPart): Record<string, unknown> {
  switch (ending.kind) {
    case "finished":
    case "cancelled":
      return { outcome: ending.kind };
    case "refused":
      return { outcome: "refused", reason: ending.reason };
    case "failed":
      return { outcome: "failed", message: ending.message };
  }
  return unreachable(ending);
}
