import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Candidate,
  draftDepth,
} from "../../../../gpu-backend/engine/speculation/draft-wishes.ts";
import { StepModel } from "../../../../src/step-cost/step-model.ts";

const aCost = fc.double({ min: 0.01, max: 2, noNaN: true });
const someCosts = fc.record({
  fixedMs: aCost,
  tokenMs: aCost,
  attendedPairMs: fc.constant(0),
  sequenceMs: fc.constant(0),
  kvTokenMs: fc.constant(0),
});
const aCandidate = fc.record({
  computedTokens: fc.constant(100),
  draftTokensMax: fc.nat(6),
  acceptanceRatio: fc.double({ min: 0.05, max: 0.99, noNaN: true }),
});

const fixed = (fixedMs: number) =>
  new StepModel({ fixedMs, tokenMs: 0, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 });

describe("draftDepth", () => {
  test("no other depth brings more tokens in a time", () => {
    fc.assert(
      fc.property(
        fc.array(aCandidate, { minLength: 1, maxLength: 5 }),
        someCosts,
        someCosts,
        (candidates: readonly Candidate[], target, draft) => {
          const rateOf = (depth: number) => {
            let tokens = candidates.length;
            let ms = target.fixedMs + target.tokenMs * candidates.length;
            for (let place = 1; place <= depth; place++) {
              const asked = candidates.filter(({ draftTokensMax }) => draftTokensMax >= place);
              if (asked.length === 0) break;
              ms += draft.fixedMs + (draft.tokenMs + target.tokenMs) * asked.length;
              for (const { acceptanceRatio } of asked) tokens += acceptanceRatio ** place;
            }
            return tokens / ms;
          };
          const forecasts = { target: new StepModel(target), draft: new StepModel(draft) };
          const depth = draftDepth(candidates, forecasts, true);
          const best = Math.max(...[0, 1, 2, 3, 4, 5, 6].map(rateOf));
          expect(rateOf(depth)).toBeGreaterThan(best * (1 - 1e-9));
        },
      ),
      { numRuns: 500 },
    );
  });

  test("is begun for a gain of a tenth, and kept up for any", () => {
    const candidate = { computedTokens: 9, draftTokensMax: 1, acceptanceRatio: 0.5 };
    const depthFor = (draftMs: number, isDrafting: boolean) =>
      draftDepth([candidate], { target: fixed(1), draft: fixed(draftMs) }, isDrafting);
    // 1.5 tokens in 1.4, 1.3 and 1.6 times as long.
    expect([depthFor(0.4, false), depthFor(0.4, true)]).toEqual([0, 1]);
    expect([depthFor(0.3, false), depthFor(0.3, true)]).toEqual([1, 1]);
    expect([depthFor(0.6, false), depthFor(0.6, true)]).toEqual([0, 0]);
  });

  test("is 0 for those whom no draft model is to be asked for", () => {
    const free = new StepModel({
      fixedMs: 0,
      tokenMs: 0.001,
      attendedPairMs: 0,
      sequenceMs: 0,
      kvTokenMs: 0,
    });
    const candidate = { computedTokens: 9, draftTokensMax: 0, acceptanceRatio: 0.99 };
    expect(draftDepth([candidate, candidate], { target: free, draft: free }, true)).toBe(0);
  });
});
