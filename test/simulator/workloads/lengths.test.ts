import { join } from "node:path";
import { expect, test } from "vitest";
import { azureArrivals } from "../../../simulator/traces/azure.ts";
import { linesOf } from "../../../simulator/traces/lines.ts";
import { mooncakeArrivals } from "../../../simulator/traces/mooncake.ts";
import { csvRows } from "../../../simulator/traces/trace-row.ts";
import type { LengthTable, RequestLengths } from "../../../simulator/workloads/length-table.ts";
import {
  QUANTILE_LEVELS,
  expectedOver,
  fitLengthTable,
  sampleLengths,
} from "../../../simulator/workloads/length-table.ts";
import {
  ARXIV_SUMMARIES,
  AZURE_CODE,
  AZURE_CONVERSATION,
  BOOK_TRANSLATION,
  MOONCAKE_CONVERSATION,
  SHAREGPT,
} from "../../../simulator/workloads/lengths.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { sharedTraces } from "../shared-traces.ts";
import { correlationOf, meanOf } from "./moments.ts";

const ALL = { requestsMax: 100_000 };
const VIDUR_COLUMNS = ["num_prefill_tokens", "num_decode_tokens"];

function azure(path: string): RequestLengths[] {
  return [...azureArrivals(linesOf(path), ALL)];
}

function vidur(path: string): RequestLengths[] {
  return [...csvRows(linesOf(path), VIDUR_COLUMNS)].map((row) => ({
    promptTokens: row.whole("num_prefill_tokens"),
    outputTokens: row.whole("num_decode_tokens"),
  }));
}

function mooncake(path: string): RequestLengths[] {
  return [...mooncakeArrivals(linesOf(path), { ...ALL, promptTokensMax: 32_000 })];
}

interface Fit {
  readonly name: string;
  readonly table: LengthTable;
  readonly path: string;
  readonly read: (path: string) => RequestLengths[];
}

const FITS: readonly Fit[] = [
  {
    name: "AZURE_CONVERSATION",
    table: AZURE_CONVERSATION,
    path: "azure/AzureLLMInferenceTrace_conv.csv",
    read: azure,
  },
  {
    name: "AZURE_CODE",
    table: AZURE_CODE,
    path: "azure/AzureLLMInferenceTrace_code.csv",
    read: azure,
  },
  { name: "SHAREGPT", table: SHAREGPT, path: "lengths/sharegpt_val_10k_llama2.csv", read: vidur },
  {
    name: "ARXIV_SUMMARIES",
    table: ARXIV_SUMMARIES,
    path: "vidur-processed/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
    read: vidur,
  },
  {
    name: "MOONCAKE_CONVERSATION",
    table: MOONCAKE_CONVERSATION,
    path: "mooncake/conversation_trace.jsonl",
    read: mooncake,
  },
  {
    name: "BOOK_TRANSLATION",
    table: BOOK_TRANSLATION,
    path: "lengths/bwb_stats_llama2_tokenizer_filtered_v2.csv",
    read: vidur,
  },
];

function logCorrelationOf(lengths: readonly RequestLengths[]): number {
  return correlationOf(
    lengths.map(({ promptTokens }) => Math.log(promptTokens)),
    lengths.map(({ outputTokens }) => Math.log(outputTokens)),
  );
}

test.each(FITS)(
  "$name has rising quantiles, and answers for every interval of prompts",
  ({ table }) => {
    expect(table.outputTokensByPrompt).toHaveLength(QUANTILE_LEVELS.length - 1);
    for (const quantiles of [table.promptTokens, ...table.outputTokensByPrompt]) {
      expect(quantiles).toHaveLength(QUANTILE_LEVELS.length);
      expect(quantiles).toEqual(quantiles.toSorted((a, b) => a - b));
      expect(quantiles[0]).toBeGreaterThanOrEqual(1);
    }
  },
);

/** Published means, and correlations of the logarithms, of the samples that the tables stand for. */
test.each([
  { name: "AZURE_CONVERSATION", table: AZURE_CONVERSATION, prompt: 1155, output: 211, r: 0.09 },
  { name: "AZURE_CODE", table: AZURE_CODE, prompt: 2048, output: 28, r: 0 },
  { name: "SHAREGPT", table: SHAREGPT, prompt: 246, output: 326, r: 0.1 },
  { name: "ARXIV_SUMMARIES", table: ARXIV_SUMMARIES, prompt: 2588, output: 291, r: -0.48 },
  { name: "BOOK_TRANSLATION", table: BOOK_TRANSLATION, prompt: 1067, output: 1613, r: 0.86 },
])("$name has the published means and correlation", ({ table, prompt, output, r }) => {
  expect(Math.abs(expectedOver(table, (one) => one.promptTokens) / prompt - 1)).toBeLessThan(0.03);
  expect(Math.abs(expectedOver(table, (one) => one.outputTokens) / output - 1)).toBeLessThan(0.03);
  const random = seededRandom(1);
  const lengths = Array.from({ length: 20_000 }, () => sampleLengths(table, random));
  // Inside an interval of prompts nothing is kept of it, which costs the strongest most.
  expect(Math.abs(logCorrelationOf(lengths) - r)).toBeLessThan(0.15);
});

test.for(FITS)("$name is what a fit of the public file gives, with its moments", (fit, context) => {
  const { table, path, read } = fit;
  const sample = read(join(sharedTraces(context), path));
  expect(fitLengthTable(sample)).toEqual(table);
  const moments = {
    prompt: ({ promptTokens }: RequestLengths) => promptTokens,
    promptSquared: ({ promptTokens }: RequestLengths) => promptTokens ** 2,
    output: ({ outputTokens }: RequestLengths) => outputTokens,
    outputSquared: ({ outputTokens }: RequestLengths) => outputTokens ** 2,
    product: ({ promptTokens, outputTokens }: RequestLengths) => promptTokens * outputTokens,
  };
  for (const moment of Object.values(moments)) {
    const found = expectedOver(table, moment) / meanOf(sample.map(moment));
    expect(Math.abs(found - 1)).toBeLessThan(0.05);
  }
});
