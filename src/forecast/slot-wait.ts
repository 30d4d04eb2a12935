import { assert } from "../base/assert.ts";
import { ResidentEnds, type Residents } from "./resident-ends.ts";
import { tokensUntil } from "./tokens-until.ts";

/**
 * How long until a request that comes now has a slot of a replica: until as many of those that hold one
 * are expected to have ended as wait, this request included. 0 while a slot is free. Linear in the
 * residents.
 */
export function slotWaitMs(residents: Residents & { readonly tpotMs: number }): number {
  const { sequences, sequencesMax } = residents.load;
  if (sequences < sequencesMax) return 0;
  assert(sequencesMax >= 1, "a replica has a slot");
  const ends = new ResidentEnds(residents);
  const due = sequences - sequencesMax + 1;
  // Once all slots have changed hands nothing of who is there now matters, only the mean rate.
  const dueSoon = Math.min(due, sequencesMax);
  const tokensPerEnd = ends.laterLifeTokens / sequencesMax;
  const tokens = tokensUntil({
    amountBy: (after) => ends.endsBy(after),
    target: dueSoon,
    guessTokens: dueSoon * tokensPerEnd,
  });
  return residents.tpotMs * (tokens + (due - dueSoon) * tokensPerEnd);
}
