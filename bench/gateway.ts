import { Agent } from "node:http";
import * as z from "zod";
import { countFlag } from "../cli/flags.ts";
import type { Random } from "../src/base/random.ts";
import { seededRandom } from "../src/base/random.ts";
import { describeMachine } from "./support/machine.ts";
import { withMeasuredStack } from "./support/measured-stack.ts";
import { runProgram } from "./support/run-program.ts";
import type { Interval } from "./support/statistics.ts";
import { bootstrapInterval, quantileOf, shuffle } from "./support/statistics.ts";
import type { TimedRequest, Timing } from "./support/timed-request.ts";
import { timeRequest } from "./support/timed-request.ts";

const SEED_MAX = 999_999_999;

const FLAGS = z.object({
  requests: countFlag({ min: 10, max: 100_000, default: 400 }, "Requests on each of the two ways"),
  "output-tokens": countFlag({ min: 2, max: 512, default: 16 }, "Tokens of each answer"),
  seed: countFlag(
    { min: 0, max: SEED_MAX, default: 1 },
    "Fixes the prompts and the order of the requests",
  ),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:gateway -- [flags]

Measures what the gateway adds to one engine: the same prompts are sent straight to the engine and
through the gateway under "workerd serve", one request at a time, in random order. Prints Markdown.`;

/** One prompt on both ways. */
interface Pair {
  readonly direct: Timing;
  readonly gateway: Timing;
}

const WARM_UP_PAIRS = 20;

async function runBenchmark(flags: Flags): Promise<string> {
  const random = seededRandom(flags.seed);
  const machine = describeMachine(["workerd", "wrangler"]);
  const agent = new Agent({ keepAlive: true });
  const pairs = await withMeasuredStack(async ({ model, direct, gateway }) => {
    const measured: Pair[] = [];
    for (let index = 0; index < flags.requests + WARM_UP_PAIRS; index += 1) {
      const body = JSON.stringify(aRequestBody(model, flags["output-tokens"], random));
      // One request at a time, so that no other one shares the step it is computed in.
      // oxlint-disable-next-line no-await-in-loop
      const pair = await timePair(
        { direct: { ...direct, body, agent }, gateway: { ...gateway, body, agent } },
        random,
      );
      if (index >= WARM_UP_PAIRS) measured.push(pair);
    }
    return measured;
  });
  agent.destroy();
  return [
    "# What the gateway adds",
    "",
    `\`npm run bench:gateway -- --requests ${flags.requests} --output-tokens ${flags["output-tokens"]} --seed ${flags.seed}\``,
    "",
    machine,
    `- ${pairs.length} requests a way, one at a time, prompts of ${PROMPT_WORDS} words that no cache has seen, ${flags["output-tokens"]} tokens out`,
    "- gateway: `workerd serve`, one process, objects on disk; engine: one, int8; all on one machine",
    "",
    ...toTable(pairs, random),
  ].join("\n");
}

async function timePair(
  requests: { readonly direct: TimedRequest; readonly gateway: TimedRequest },
  random: Random,
): Promise<Pair> {
  const timings = { direct: NOT_TIMED, gateway: NOT_TIMED };
  for (const way of shuffle(["direct", "gateway"] as const, random)) {
    // oxlint-disable-next-line no-await-in-loop
    timings[way] = await timeRequest(requests[way]);
  }
  return timings;
}

const NOT_TIMED: Timing = { firstTokenMs: Number.NaN, totalMs: Number.NaN };

const WORDS = [
  "fox",
  "river",
  "lamp",
  "stone",
  "cloud",
  "boat",
  "garden",
  "letter",
  "clock",
  "hill",
];
const PROMPT_WORDS = 60;

/** A prompt of random words: equally long each time, and never one that a prefix cache knows. */
function aRequestBody(model: string, outputTokens: number, random: Random): object {
  const words = Array.from(
    { length: PROMPT_WORDS },
    () => WORDS[Math.floor(random() * WORDS.length)],
  );
  return {
    model,
    stream: true,
    temperature: 0,
    max_completion_tokens: outputTokens,
    messages: [{ role: "user", content: words.join(" ") }],
  };
}

function toTable(pairs: readonly Pair[], random: Random): readonly string[] {
  const rows = (["firstTokenMs", "totalMs"] as const).flatMap((figure) =>
    [0.5, 0.99].map((ratio) => {
      const addedOf = (some: readonly Pair[]) =>
        quantileOf(
          some.map(({ gateway }) => gateway[figure]),
          ratio,
        ) -
        quantileOf(
          some.map(({ direct }) => direct[figure]),
          ratio,
        );
      const direct = quantileOf(
        pairs.map((pair) => pair.direct[figure]),
        ratio,
      );
      const gateway = quantileOf(
        pairs.map((pair) => pair.gateway[figure]),
        ratio,
      );
      const name = figure === "firstTokenMs" ? "TTFT" : "whole answer";
      const added = `**${addedOf(pairs).toFixed(2)}** ${toText(bootstrapInterval(pairs, addedOf, random))}`;
      return `| ${name} | p${ratio * 100} | ${direct.toFixed(2)} | ${gateway.toFixed(2)} | ${added} |`;
    }),
  );
  return [
    "| | | engine alone, ms | through the gateway, ms | added, ms [95 % interval] |",
    "|---|---|---|---|---|",
    ...rows,
  ];
}

const toText = ({ low, high }: Interval) => `[${low.toFixed(2)}, ${high.toFixed(2)}]`;

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
