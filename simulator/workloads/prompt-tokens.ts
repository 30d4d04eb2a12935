import { mix32 } from "../../src/base/hash.ts";
import type { ArrivalSpec } from "./arrival.ts";

/** Keep streams of groups, sessions, lone requests and recorded blocks apart. */
const STREAM_KINDS = { group: 1, session: 2, lone: 3, block: 4 } as const;

/**
 * Writes out the prompt of an arrival as token ids in [0, `vocabulary`), the same ones every time.
 *
 * Two prompts begin alike exactly as far as their groups, sessions or recorded blocks say. `index` is
 * the arrival's place in its workload; it sets lone requests apart.
 */
export function promptTokenIds(arrival: ArrivalSpec, index: number, vocabulary: number): number[] {
  const { promptTokens, prefixTokens, prefixGroup, sessionId, promptBlocks } = arrival;
  const rest =
    sessionId === undefined
      ? streamOf(STREAM_KINDS.lone, index)
      : streamOf(STREAM_KINDS.session, sessionId);
  const ids: number[] = [];
  if (promptBlocks !== undefined) {
    for (let at = 0; at < promptTokens; at += 1) {
      const block = promptBlocks.ids[Math.floor(at / promptBlocks.blockTokens)];
      const stream = block === undefined ? rest : streamOf(STREAM_KINDS.block, block);
      ids.push(tokenAt(stream, at, vocabulary));
    }
    return ids;
  }
  const group = streamOf(STREAM_KINDS.group, prefixGroup);
  for (let at = 0; at < promptTokens; at += 1) {
    ids.push(tokenAt(at < prefixTokens ? group : rest, at, vocabulary));
  }
  return ids;
}

/** Folds a number of up to 53 bits into 32. */
function streamOf(kind: number, id: number): number {
  const low = mix32(id);
  return mix32(
    low ^ Math.imul(Math.floor(id / 2 ** 32) + 1, 0x9e3779b1) ^ Math.imul(kind, 0x85ebca6b),
  );
}

function tokenAt(stream: number, at: number, vocabulary: number): number {
  return mix32(stream ^ Math.imul(at + 1, 0xc2b2ae35)) % vocabulary;
}
