import { aRequest, BenchEngine, cpuMsOf, type StepRecord } from "./bench-engine.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { predictedMsOf } from "./step-curve.ts";
import { takeTurns } from "./take-turns.ts";
import { somePrompt } from "./workload.ts";

const PROMPT_TOKENS = 1500;
/** Of the prompt, in whole blocks; the last is a prompt that was there before. */
const HIT_TOKENS = [0, 752, 1344, 1488];

interface Side {
  readonly hitTokens: number;
  readonly isCaching: boolean;
}

export const PREFIX: Section = {
  title: "Prefix cache",
  published:
    "LMCache and Glean report a first token 6.7 and 7 times sooner on warm prompts of thousands of tokens; vLLM V1 below 1 % lost at no hits. A share h of the prompt hit leaves 1 − h of it to compute: at most 1/(1 − h)",
  how: `the first token of a prompt of ${PROMPT_TOKENS} tokens, alone on the engine, with the cache off over on`,
  why: "The end of a prompt costs more than its beginning, since it attends to more: hits gain less than 1/(1 − h) until all of it is hit, and then what is left is one step",
  predicts: true,
  measure,
};

async function measure({ machine, curve, repeats, random }: Conditions): Promise<Row[]> {
  const rows: Row[] = [];
  let seed = 0;
  for (const hitTokens of HIT_TOKENS) {
    const sides: Side[] = [false, true].map((isCaching) => ({ hitTokens, isCaching }));
    const [off, on] = sides;
    if (off === undefined || on === undefined) continue;
    // oxlint-disable-next-line no-await-in-loop -- one at a time
    const runsOf = await takeTurns(sides, { repeats, random }, async (side) =>
      runOnce(machine, side, (seed += 1)),
    );
    const measured = (side: Side) => runsOf(side).map(cpuMsOf);
    const predicted = (side: Side) =>
      medianOf(runsOf(side).map((steps) => predictedMsOf(curve, steps)));
    rows.push({
      what: `${((100 * hitTokens) / PROMPT_TOKENS).toFixed(0)} % hit`,
      ours: show(ratioOf(measured(off), measured(on), random)),
      predicted: (predicted(off) / predicted(on)).toFixed(2),
    });
  }
  return rows;
}

/** The steps of a prompt of which somebody has computed the beginning. */
async function runOnce(
  machine: Conditions["machine"],
  { hitTokens, isCaching }: Side,
  seed: number,
): Promise<StepRecord[]> {
  const bench = new BenchEngine(machine, { prefixCache: isCaching, isForecast: false });
  const shared = somePrompt(hitTokens, seed);
  if (hitTokens > 0) {
    bench.submit(aRequest({ id: "before", promptTokens: shared, outputTokensMax: 1 }));
    await bench.runToEnd();
  }
  const promptTokens = [...shared, ...somePrompt(PROMPT_TOKENS - hitTokens, -seed)];
  bench.submit(aRequest({ promptTokens, outputTokensMax: 1 }));
  return bench.runToEnd();
}
