import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createSamplingKernel } from "../../../../gpu-backend/engine/executor/sampling-kernel.ts";
import {
  PlainSamplingMath,
  type SamplingMath,
} from "../../../../gpu-backend/engine/sampling-math.ts";

const aScore = fc.oneof(
  { weight: 8, arbitrary: fc.double({ min: -60, max: 30, noNaN: true }) },
  fc.constantFrom(-Infinity, -Number.MAX_VALUE, Number.MAX_VALUE, 0, -0, 1e300),
);

/** All that the arithmetic yields for these scores, as bits. */
function bitsOf(math: SamplingMath, scores: readonly number[], temperature: number, cut: number) {
  math.scores.set(scores);
  const best = scores.reduce((soFar, score) => Math.max(soFar, score), -Infinity);
  const sum = math.weigh(best, 1 / temperature, Math.max(cut, -Number.MAX_VALUE));
  const all = Float64Array.of(sum, math.sumFrom(0.01), math.sumFrom(1), ...math.weights);
  return [...new BigUint64Array(all.buffer)];
}

test("the kernel gives the bits of the plain arithmetic, for any scores", () => {
  fc.assert(
    fc.property(
      fc.array(aScore, { minLength: 1, maxLength: 40 }).filter((scores) => scores.some(isFinite)),
      fc.constantFrom(1e-5, 0.1, 0.7, 1, 2),
      fc.constantFrom(-Infinity, -5, 0),
      (scores, temperature, cut) => {
        const kernel = bitsOf(createSamplingKernel(scores.length), scores, temperature, cut);
        expect(kernel).toEqual(
          bitsOf(new PlainSamplingMath(scores.length), scores, temperature, cut),
        );
      },
    ),
    { numRuns: 200 },
  );
});

const aLogit = fc.oneof(
  { weight: 8, arbitrary: fc.float({ min: -20, max: 20, noNaN: true }) },
  { weight: 2, arbitrary: fc.constantFrom(3, 3.5, -0, 0) },
  fc.constantFrom(Math.fround(-3.4e38), -3.4028234663852886e38, 3.4028234663852886e38),
);

test("the kernel finds, widens, gathers and draws what the plain arithmetic does", () => {
  fc.assert(
    fc.property(
      fc.array(aLogit, { minLength: 1, maxLength: 40 }),
      fc.constantFrom(undefined, Number.NaN, Infinity, -Infinity),
      fc.nat(39),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.constantFrom(0, 1e-9, 0.01, 0.5, 2),
      (found, odd, at, share, cut) => {
        const logits = Float32Array.from(found);
        if (odd !== undefined && at < logits.length) logits[at] = odd;
        const [kernel, plain] = [
          createSamplingKernel,
          (count: number) => new PlainSamplingMath(count),
        ]
          .map((create) => create(logits.length))
          .map((math) => {
            // What a longer use left behind makes no difference.
            for (const row of [logits.toReversed(), logits]) math.bestOf(row);
            const best = math.bestOf(logits);
            if (best < 0) return { best };
            math.fillScores();
            const sum = math.weigh(logits[best] ?? 0, 1, -Number.MAX_VALUE);
            const gathered = (["scores", "weights"] as const).map((values) => {
              const count = math.gather(values, values === "scores" ? 3 : cut || 1e-300);
              return [...math.candidates.subarray(0, count)];
            });
            const drawn = [share * sum, sum * 2].map((target) => math.draw(cut, target));
            return { best, scores: [...math.scores], sum, gathered, drawn };
          });
        expect(kernel).toEqual(plain);
      },
    ),
    { numRuns: 500 },
  );
});

test("weights are exponentials to the last bits, however small", () => {
  const math = createSamplingKernel(7001);
  const scores = Array.from({ length: 7001 }, (_, index) => -index / 10);
  math.scores.set(scores);
  math.weigh(0, 1, -Infinity);
  const worst = scores.reduce((soFar, score, token) => {
    if (score < -690) return soFar;
    return Math.max(soFar, Math.abs((math.weights[token] ?? 0) / Math.exp(score) - 1));
  }, 0);
  expect(worst).toBeLessThan(1e-15);
  expect(math.weights[7000], "as good as nothing, but nothing that breaks a sum").toBeLessThan(
    1e-300,
  );
});

test("what is forbidden weighs nothing", () => {
  const math = createSamplingKernel(3);
  math.scores.set([-Infinity, 1, -Infinity]);
  expect(math.weigh(1, 1, -Number.MAX_VALUE)).toBe(1);
  expect([...math.weights]).toEqual([0, 1, 0]);
});
