import type { Random } from "../../src/base/random.ts";
import { shuffle } from "../support/shuffle.ts";

/** Measures each side once a round, in random order, so that whatever drifts drifts for all of them. */
export async function takeTurns<Side, Sample>(
  sides: readonly Side[],
  rounds: { readonly repeats: number; readonly random: Random; readonly warmUps?: number },
  measure: (side: Side) => Promise<Sample>,
): Promise<(side: Side) => readonly Sample[]> {
  const { repeats, random, warmUps = 1 } = rounds;
  const samples = new Map<Side, Sample[]>(sides.map((side) => [side, []]));
  for (let round = -warmUps; round < repeats; round += 1) {
    for (const side of shuffle(sides, random)) {
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      const sample = await measure(side);
      if (round >= 0) samples.get(side)?.push(sample);
    }
  }
  return (side) => samples.get(side) ?? [];
}
