import type { BatchRow } from "../../gpu-backend/engine/batch.ts";
import { createOnnxExecutor } from "../../gpu-backend/engine/executor/onnx-executor.ts";
import type { Precision, Stage } from "../../gpu-backend/engine/executor/load-stages.ts";
import type { RuntimeChoice } from "../../gpu-backend/engine/executor/runtime-choice.ts";
import type { KvPrecision } from "../../gpu-backend/engine/model/model-config.ts";
import type { LoadedModel } from "../../gpu-backend/engine/model/load-model.ts";
import { createSamplingKernel } from "../../gpu-backend/engine/executor/sampling-kernel.ts";
import { sampleBatch } from "../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../gpu-backend/engine/sampler.ts";
import { TokenHistory } from "../../gpu-backend/engine/token-history.ts";
import { assert } from "../../src/base/assert.ts";
import { type EngineSide, GREEDY, PROMPT_SEQUENCE, type SideLimits } from "./engine-side.ts";

const BLOCK_TOKENS = 16;

/** What a step is made of; `rest` is all that lies between, JavaScript as well as norms and gates. */
export const STEP_PARTS = ["products", "attention", "sampling", "rest"] as const;
export type StepPartName = (typeof STEP_PARTS)[number];

/** Is told which part of a step begins. */
export interface StepWatch {
  enter(part: StepPartName): void;
}

const PART_OF_STAGE = {
  graph: "products",
  product: "products",
  attention: "attention",
  embed: "rest",
  add: "rest",
  norm: "rest",
  gate: "rest",
  variant: "rest",
  pick: "rest",
  split: "rest",
} as const satisfies Record<Stage["kind"], StepPartName>;

/** One way to run our own engine; KV is kept as `precision` says, unless said otherwise. */
export interface SluiceWay {
  readonly precision: Precision;
  readonly kvPrecision?: KvPrecision;
  readonly runtime: RuntimeChoice;
}

/** Our own executor and sampler, without scheduler and server. */
export async function openSluice(
  model: LoadedModel,
  { precision, kvPrecision = precision, runtime }: SluiceWay,
  limits: SideLimits,
  watch?: StepWatch,
): Promise<EngineSide> {
  const tables = blockTables(limits);
  const executor = await createOnnxExecutor({
    model,
    precision,
    kvPrecision,
    runtime,
    blockTokens: BLOCK_TOKENS,
    blockCount: tables.reduce((sum, table) => sum + table.length, 0),
    batchTokensMax: limits.promptTokensMax,
    ...(watch !== undefined && { onStage: (kind) => watch.enter(PART_OF_STAGE[kind]) }),
  });
  const sampler = new Sampler(
    executor.vocabularyTokens,
    createSamplingKernel(executor.vocabularyTokens),
  );
  const history = new TokenHistory(GREEDY, []);
  return {
    name: `Sluice ${precision}, ${kvPrecision === precision ? "" : `KV ${kvPrecision}, `}${runtime}`,
    isInteger: precision === "int8",
    isDefault: kvPrecision === precision,
    step: async (parts, sampling) => {
      const rows = parts.map(({ sequence, startPosition, tokens }): BatchRow => {
        return {
          sequenceId: String(sequence),
          tokens: Int32Array.from(tokens),
          startPosition,
          blockTable: tables[sequence] ?? new Int32Array(0),
          output: "last",
          outputIndex: startPosition,
          choice: { sampling, outputIndex: startPosition, history, forbiddenTokenIds: [] },
        };
      });
      const totalTokens = rows.reduce((sum, row) => sum + row.tokens.length, 0);
      const batch = { rows, totalTokens };
      const output = await executor.run(batch);
      watch?.enter("sampling");
      return sampleBatch(sampler, batch, output).map((result) => {
        assert(result.kind === "computed", "every row is computed");
        return result.chosen?.[0]?.tokenId ?? -1;
      });
    },
    // A position that is computed again overwrites what was there.
    rewind: () => {},
    close: () => executor.close(),
  };
}

/** Blocks lie as the engine would deal them out: those of a sequence side by side, none unused. */
function blockTables({ promptTokensMax, sequenceTokensMax, sequencesMax }: SideLimits) {
  let first = 0;
  return Array.from({ length: 1 + sequencesMax }, (_, sequence) => {
    const tokens = sequence === PROMPT_SEQUENCE ? promptTokensMax : sequenceTokensMax;
    const count = Math.ceil(tokens / BLOCK_TOKENS);
    const table = Int32Array.from({ length: count }, (__, index) => first + index);
    first += count;
    return table;
  });
}
