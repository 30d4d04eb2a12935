import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { EngineAdapter } from "../../src/adapters/engine-adapter.ts";
import type { EngineSignals } from "../../src/protocol/engine-signals.ts";
import type { ServerFindings } from "./examine-server.ts";

const SIGNALS: readonly (readonly [
  Exclude<keyof EngineSignals, "models" | "answersAnyName">,
  string,
])[] = [
  ["isReady", "says whether it is ready"],
  ["running", "requests that run"],
  ["queued", "requests that wait inside it"],
  ["queuedTokens", "prompt tokens that wait"],
  ["kvUsedRatio", "share of its KV in use"],
  ["prefixHitRatio", "share of prompts found cached"],
  ["runningMax", "requests it runs at once"],
];

const CONTEXT_GUESS = 4096;

/** Lays out what a server turned out to be, for people: what works, what does not, and what to do. */
export function reportServer(url: string, findings: ServerFindings): readonly string[] {
  const { label, models, signals, keepsTenantsApart, answer, advice, engine } = findings;
  const lines = [`${url} is ${label}`];
  for (const { modelId, contextTokens, parentId } of models) {
    const context = contextTokens === undefined ? "" : `, context ${contextTokens}`;
    const kind = parentId === undefined ? "model  " : "adapter";
    lines.push(
      `  ${kind}  ${modelId}${parentId === undefined ? "" : `, of ${parentId}`}${context}`,
    );
  }
  if (engine === undefined) return lines;
  // Ours reports all of it by itself.
  if (engine !== "sluice") {
    for (const [name, meaning] of SIGNALS) {
      const value = signals[name];
      lines.push(`  ${value === undefined ? "no " : "yes"}      ${meaning}${valueText(value)}`);
    }
    lines.push(
      modelsLine(ADAPTERS[engine]),
      keepsTenantsApart
        ? "  yes      keeps the KV of tenants apart (cache_salt)"
        : "  no       keeps the KV of tenants apart: what one has sent shows in how fast another is served",
    );
    const { priorities } = ADAPTERS[engine];
    lines.push(
      priorities === undefined
        ? "  no       can be told which request is more urgent"
        : `  yes      can be told which request is more urgent: ${priorities.setup}, then say "priorities: true" in its pool`,
    );
  }
  if (answer?.kind === "failed") lines.push(`  no       answers a short request: ${answer.reason}`);
  if (answer?.kind === "answered") {
    lines.push(`  ${yesNo(answer.hasDone)}      ends its stream with [DONE]`);
    lines.push(`  ${yesNo(answer.tellsUsage)}      counts the tokens of a stream`);
    lines.push(`  ${yesNo(answer.tellsCachedTokens)}      counts cached tokens`);
  }
  for (const text of advice) lines.push(`  advice   ${text}`);
  return lines;
}

function modelsLine({ models }: EngineAdapter): string {
  if (models === undefined) {
    return "  no       says which models it refuses: list them as its models where servers of a pool differ";
  }
  return models.answersAnyName
    ? "  yes      says which models it serves, and answers whichever name it is asked by"
    : "  yes      says which models and adapters it serves";
}

/** The part of a configuration file that has this server as a pool. */
export function snippetOf(url: string, { engine, models }: ServerFindings): readonly string[] {
  if (engine === undefined) return [];
  const named = models.map(({ modelId, contextTokens }) => {
    const name =
      modelId
        .split("/")
        .at(-1)
        ?.toLowerCase()
        .replaceAll(/[^a-z0-9._-]/g, "-") ?? "model";
    const [context, doubt] =
      contextTokens === undefined
        ? [CONTEXT_GUESS, "   # it does not say its context"]
        : [contextTokens, ""];
    return `  ${name}: { pool: gpus, upstream: ${JSON.stringify(modelId)}, context: ${context} }${doubt}`;
  });
  return [
    "models:",
    ...named,
    "pools:",
    `  gpus: { engine: ${engine}, replicas: [{ url: ${url} }] }`,
  ];
}

function valueText(value: number | boolean | undefined): string {
  return typeof value === "number" ? `: ${Math.round(value * 1000) / 1000} now` : "";
}

const yesNo = (isSo: boolean): string => (isSo ? "yes" : "no ");
