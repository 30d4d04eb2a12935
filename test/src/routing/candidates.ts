import * as fc from "fast-check";
import { ReplicaId } from "../../../src/protocol/ids.ts";
import type { Candidate } from "../../../src/routing/candidate.ts";

/** A candidate of a pool in which nothing sets one apart, but for what a test says. */
export function candidate(name: string, facts: Partial<Candidate> = {}): Candidate {
  return {
    replicaId: ReplicaId.parse(name),
    sequences: 0,
    capacity: 64,
    capacityRatio: 1,
    headroomRatio: 0.4,
    isFeasible: true,
    isProbe: false,
    tighteningRatio: 0,
    uncachedTokens: 200,
    turn: 0,
    ttftMs: 100,
    reportAgeMs: 50,
    rendezvous: 0,
    ...facts,
  };
}

/** Several candidates with numbers that often meet, so that every tie is tried. */
export const anyCandidates = fc
  .array(
    fc.record({
      sequences: fc.integer({ min: 0, max: 40 }),
      capacity: fc.constantFrom(1, 16, 64),
      capacityRatio: fc.constantFrom(0.1, 0.5, 1),
      headroomRatio: fc.constantFrom(-0.2, 0, 0.04, 0.06, 0.25, 0.29, 0.31, 0.9),
      isFeasible: fc.boolean(),
      isProbe: fc.constantFrom(false, false, false, true),
      tighteningRatio: fc.constantFrom(0, 0.1, 1),
      uncachedTokens: fc.constantFrom(0, 100, 105, 200),
      turn: fc.constantFrom(0, 0.5, 1),
      ttftMs: fc.constantFrom(20, 20.3, 21, 100, 900),
      reportAgeMs: fc.constantFrom(0, 400, 1_500),
      rendezvous: fc.integer({ min: 0, max: 3 }),
    }),
    { maxLength: 24 },
  )
  .map((all) => all.map((facts, index) => candidate(`r${index}`, facts)));
