import type { Continuation } from "../protocol/continuation.ts";
import type { UpstreamChunk } from "../protocol/upstream-answer.ts";

/** An answer whose replica failed under way: what another one needs to go on, and what its client has seen. */
export interface InterruptedAnswer {
  readonly continuation: Continuation;
  readonly identity: AnswerIdentity;
  readonly firstTokenAtMs: number;
  readonly lastTokenAtMs: number;
  readonly tbtMaxMs: number;
  readonly outputChunks: number;
}

/** What all chunks of an answer have in common, whoever wrote them. */
export interface AnswerIdentity {
  readonly id?: string;
  readonly created?: number;
}

/** Reads of one chunk what those behind it have to say as well. */
export function identityOf({ id, created }: UpstreamChunk): AnswerIdentity {
  return {
    ...(typeof id === "string" && { id }),
    ...(typeof created === "number" && { created }),
  };
}

/** Writes it as members of a chunk of another replica. */
export function identityMembers(identity: AnswerIdentity): Record<string, string> {
  const members = Object.entries(identity).map(([name, value]) => [name, JSON.stringify(value)]);
  return Object.fromEntries(members);
}
