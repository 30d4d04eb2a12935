import type { Rejection } from "../../src/pool/offer.ts";
import type { PlannedPool } from "./plan-pool.ts";

const REASONS: Readonly<Record<Rejection["reason"], string>> = {
  infeasible: "could not have been in time behind what ran and waited",
  unattainable: "would have been late on an idle replica too",
  "out-of-profile": "were beyond the tenant's guarantee",
  "queue-full": "found the queue full",
  "deadline-passed": "waited until it was too late",
  "no-replica": "found no replica that takes them",
  closed: "found the pool closed",
  withdrawn: "were withdrawn",
};

/** Of fewer the 99th percentile is the slowest one. */
const REQUESTS_MIN = 100;

/** Says of a tenant why it was refused, and what its figures leave out; nothing where they tell it all. */
export function noteLines(
  tenant: PlannedPool["tenants"][number],
  sequenceTokensMax: number,
): string[] {
  const { name, offered, refused, refusedBy, tooLongPrompts, cutAnswers, unended } = tenant;
  const reasons = Object.entries(REASONS).flatMap(([reason, meaning]) => {
    const count = Object.entries(refusedBy).find(([each]) => each === reason)?.[1] ?? 0;
    return count === 0 ? [] : [`${count} ${meaning} (${reason})`];
  });
  const room = `${sequenceTokensMax} tokens of a replica`;
  const admitted = offered - refused;
  return [
    ...(admitted > 0 && admitted < REQUESTS_MIN
      ? [`${name}: ${admitted} requests say little of a p99: plan more --seconds, or more --seeds`]
      : []),
    ...(reasons.length > 0 ? [`${name}: of those refused ${reasons.join(", ")}`] : []),
    ...(tooLongPrompts > 0
      ? [`${name}: ${tooLongPrompts} of ${offered} prompts do not fit into the ${room}`]
      : []),
    ...(cutAnswers > 0
      ? [`${name}: ${cutAnswers} of ${offered} answers ended early, at the ${room}`]
      : []),
    ...(unended > 0
      ? [
          `${name}: ${unended} of ${offered} had no end when the simulation was over: nobody knows whether they were in time`,
        ]
      : []),
  ];
}
