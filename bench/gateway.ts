import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { countFlag } from "../cli/flags.ts";
import type { Random } from "../src/base/random.ts";
import { seededRandom } from "../src/base/random.ts";
import type { Round, Sample } from "./support/gateway-table.ts";
import { cpuTable, latencyTable } from "./support/gateway-table.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { shuffle } from "./support/shuffle.ts";
import { timeRequest } from "./support/timed-request.ts";
import type { Way } from "./support/ways.ts";
import { hasPortkey, withWays } from "./support/ways.ts";

const SEED_MAX = 999_999_999;

const FLAGS = z.object({
  requests: countFlag({ min: 10, max: 100_000, default: 400 }, "Requests on each of the ways"),
  "output-tokens": countFlag({ min: 2, max: 512, default: 16 }, "Tokens of each answer"),
  "long-output-tokens": countFlag(
    { min: 3, max: 1024, default: 128 },
    "Tokens of every fourth answer, by which the cost of a token is told from that of a request",
  ),
  seed: countFlag(
    { min: 0, max: SEED_MAX, default: 1 },
    "Fixes the prompts and the order of the requests",
  ),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:gateway -- [flags]

Measures what the gateway adds to one engine. The same prompts go to the engine on several ways, one
request at a time, in random order: straight; through a Worker that does nothing but pass everything
on; through this gateway, both under "workerd serve"; and through the Portkey gateway where it is
installed (npm install --prefix bench/peers --ignore-scripts). Prints Markdown.`;

const WARM_UP_ROUNDS = 20;
const ROUNDS_TO_A_LONG_ONE = 4;
/** What is still to be done when a client has its answer is done after so long. */
const SETTLED_AFTER_MS = 8;

async function runBenchmark(flags: Flags): Promise<string> {
  const random = seededRandom(flags.seed);
  const machine = describeMachine(["workerd", "wrangler"]);
  const agent = new Agent({ keepAlive: true });
  const rounds = await withWays(async (model, ways) => {
    const measured: Round[] = [];
    for (let index = 0; index < flags.requests + WARM_UP_ROUNDS; index += 1) {
      const isLong = index % ROUNDS_TO_A_LONG_ONE === 0;
      const outputTokens = isLong ? flags["long-output-tokens"] : flags["output-tokens"];
      const body = JSON.stringify(aRequestBody(model, outputTokens, random));
      // One request at a time, so that no other one shares the step it is computed in.
      // oxlint-disable-next-line no-await-in-loop
      const samples = await measureRound(ways, { body, agent }, random);
      if (index >= WARM_UP_ROUNDS) measured.push({ isLong, samples });
    }
    return measured;
  });
  agent.destroy();
  return [
    "# What the gateway adds",
    "",
    `\`npm run bench:gateway -- --requests ${flags.requests} --output-tokens ${flags["output-tokens"]} --long-output-tokens ${flags["long-output-tokens"]} --seed ${flags.seed}\``,
    "",
    machine,
    `- ${rounds.length} requests a way, one at a time, prompts of ${PROMPT_WORDS} words that no cache has seen, every fourth answer ${flags["long-output-tokens"]} tokens long, the others ${flags["output-tokens"]}`,
    "- Sluice and the pass-through Worker: `workerd serve`, a process each, objects on disk; engine: one, int8; all on one machine",
    ...(hasPortkey ? [] : ["- the Portkey gateway was not installed and is left out"]),
    "",
    ...latencyTable(rounds, random),
    "",
    ...cpuTable(rounds, random),
  ].join("\n");
}

async function measureRound(
  ways: readonly Way[],
  request: { readonly body: string; readonly agent: Agent },
  random: Random,
): Promise<ReadonlyMap<Way["name"], Sample>> {
  const samples = new Map<Way["name"], Sample>();
  for (const { name, target, cpuMs } of shuffle(ways, random)) {
    const usedMs = cpuMs();
    // oxlint-disable-next-line no-await-in-loop
    const timing = await timeRequest({ ...target, ...request });
    // oxlint-disable-next-line no-await-in-loop
    await sleep(SETTLED_AFTER_MS);
    samples.set(name, { ...timing, cpuMs: cpuMs() - usedMs });
  }
  return samples;
}

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

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
