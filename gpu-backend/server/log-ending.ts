import type { Log } from "../log.ts";
import type { BrokenPart } from "./answer.ts";
import type { Generation } from "./generation.ts";
import type { Arrival } from "./read-request.ts";
import type { Choice } from "./submit-generation.ts";

/** A request of which nothing runs any more. */
export interface EndedGeneration {
  readonly generation: Generation;
  readonly arrival: Arrival;
  readonly choices: readonly Choice[];
  /** What broke the first choice that broke; undefined if all are complete. */
  readonly broken: BrokenPart | undefined;
}

/**
 * Writes the one line that the log has of a request: how it ended, what it cost and how long it
 * took, and nothing of what was said.
 */
export function logEnding(log: Log, ended: EndedGeneration, atMs: number): void {
  const { generation, arrival, choices, broken } = ended;
  log(broken?.kind === "failed" ? "error" : "info", "request-ended", {
    requestId: arrival.requestId,
    answerId: generation.identity.id,
    operation: generation.operation,
    isStream: generation.parameters.stream,
    choices: choices.length,
    ...(broken === undefined ? describeComplete(choices) : describeBroken(broken)),
    ...choices[0]?.timing.durations(atMs),
  });
}

function describeComplete(choices: readonly Choice[]): Record<string, unknown> {
  const finished = choices.flatMap(({ answer: { ending } }) =>
    ending?.kind === "finished" ? [ending] : [],
  );
  const [first] = finished;
  return {
    outcome: [...new Set(finished.map((ending) => ending.reason))].toSorted().join("+"),
    promptTokens: first?.counts.promptTokens,
    cachedTokens: first?.counts.cachedTokens,
    outputTokens: finished.reduce((sum, { counts }) => sum + counts.outputTokens, 0),
  };
}

function describeBroken(broken: BrokenPart): Record<string, unknown> {
  const { kind: outcome, ...detail } = broken;
  return { outcome, ...detail };
}
