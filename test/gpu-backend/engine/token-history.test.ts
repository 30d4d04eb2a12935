import { expect, test } from "vitest";
import { TokenHistory } from "../../../gpu-backend/engine/token-history.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { aSampling } from "../../support/engine-builders.ts";

const stateOf = (history: TokenHistory) => ({
  seen: [...history.seenTokens].toSorted((a, b) => a - b),
  counts: [...history.outputCounts].toSorted(([a], [b]) => a - b),
});

test("what was on trial leaves nothing behind, nor takes anything with it", () => {
  const random = seededRandom(2);
  const token = () => Math.floor(random() * 8);
  for (let round = 0; round < 100; round += 1) {
    const sampling = aSampling({
      repetitionPenalty: round % 2 === 0 ? 1 : 1.2,
      presencePenalty: round % 3 === 0 ? 0 : 0.5,
    });
    const prompt = [token(), token(), token()];
    const history = new TokenHistory(sampling, prompt, [token(), token()]);
    const before = stateOf(history);
    for (let count = Math.floor(random() * 6); count > 0; count -= 1) history.addOnTrial(token());
    history.takeBack();
    expect(stateOf(history)).toEqual(before);
  }
});
