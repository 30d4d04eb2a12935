import { aRequest, BenchEngine, cpuMsOf, type Machine } from "./bench-engine.ts";
import { ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";
import { somePrompt } from "./workload.ts";

interface Work {
  readonly name: string;
  readonly batch: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

const WORKS: readonly Work[] = [
  ...[1, 4, 16].map((batch) => ({
    name: `decode, batch ${batch}`,
    batch,
    promptTokens: 64,
    outputTokens: 64,
  })),
  { name: "prefill, 512 tokens", batch: 1, promptTokens: 512, outputTokens: 1 },
];

/** The same model in the other precision on the same runtime. */
export function precisionSection(other: Machine): Section {
  return {
    title: "Precision",
    published:
      "Weights of 8 bits are a quarter of f32's: at most 4 times the speed where weights are read for one token, none where products bound",
    how: `CPU time of steps, ${other.name} over this; the accuracy is in the README`,
    why: "At batch 1 memory decides, later the products. int8 products in wasm are 128 bits wide; natively f32 products are 512 bits wide, and int8 ones are the same kernels as in wasm",
    predicts: false,
    measure: (conditions) => measure(conditions, other),
  };
}

async function measure({ machine, repeats, random }: Conditions, other: Machine): Promise<Row[]> {
  const rows: Row[] = [];
  for (const work of WORKS) {
    // oxlint-disable-next-line no-await-in-loop -- one at a time
    const samplesOf = await takeTurns([machine, other], { repeats, random }, async (side) =>
      workMs(side, work),
    );
    rows.push({
      what: work.name,
      ours: show(ratioOf(samplesOf(other), samplesOf(machine), random)),
    });
  }
  return rows;
}

/** Of the steps that the work is about: prefill or decodes. */
async function workMs(machine: Machine, work: Work): Promise<number> {
  const bench = new BenchEngine(machine, { isForecast: false });
  for (let index = 0; index < work.batch; index += 1) {
    const promptTokens = somePrompt(work.promptTokens, index);
    bench.submit(aRequest({ id: `${index}`, promptTokens, outputTokensMax: work.outputTokens }));
  }
  const steps = await bench.runToEnd();
  if (work.outputTokens === 1) return cpuMsOf(steps);
  return cpuMsOf(steps.filter(({ work: { tokens, sequences } }) => tokens === sequences));
}
