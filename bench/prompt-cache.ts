import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { countFlag } from "../cli/flags.ts";
import type { Random } from "../src/base/random.ts";
import { seededRandom } from "../src/base/random.ts";
import { describeMachine } from "./support/machine.ts";
import type { MeasuredStack } from "./support/measured-stack.ts";
import { withMeasuredStack } from "./support/measured-stack.ts";
import { runSessions } from "./support/prompt-sessions.ts";
import { runProgram } from "./support/run-program.ts";
import { bootstrapInterval, quantileOf } from "../simulator/statistics.ts";
import { shuffle } from "./support/shuffle.ts";
import type { Timing } from "./support/timed-request.ts";
import { timeRequest } from "./support/timed-request.ts";
import { PREFIX_WORDS, wordsOf } from "./support/words.ts";

const FLAGS = z.object({
  rounds: countFlag(
    { min: 5, max: 10_000, default: 60 },
    "Shared prefixes, each asked in every way",
  ),
  sessions: countFlag({ min: 2, max: 1_000, default: 40 }, "Conversations of several turns"),
  seed: countFlag({ min: 0, max: 999_999_999, default: 1 }, "Fixes prompts, order and arrivals"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:prompt-cache -- [flags]

Measures what cached prompts save on a gateway with two engines: the first token of prompts that share a
prefix of about 1,500 tokens, asked for the first time, again, by another tenant, and without caching, one
at a time and in random order; then conversations side by side at 60 % of what the engines can do one after
the other, and of their prompts how much was found, against a router that knows where everything is. Prints
Markdown.`;

/** In the order in which they must come: what is warm was cold before. */
const WAYS = ["cold", "off", "warm", "other tenant, warm for the first"] as const;
type WayName = (typeof WAYS)[number];
type Round = Readonly<Record<WayName, Timing>>;

const WARM_UP_ROUNDS = 4;
/** A report tells what is cached 100 ms after it is, at the latest. */
const SETTLED_AFTER_MS = 120;
const OFF = { prompt_cache_options: { mode: "explicit" } };

async function runBenchmark(flags: Flags): Promise<string> {
  const random = seededRandom(flags.seed);
  const machine = describeMachine(["workerd", "wrangler"]);
  const agent = new Agent({ keepAlive: true });
  const { rounds, sessions } = await withMeasuredStack(async (stack) => {
    const measured: Round[] = [];
    for (let index = 0; index < flags.rounds + WARM_UP_ROUNDS; index += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      const round = await measureRound(stack, agent, random);
      if (index >= WARM_UP_ROUNDS) measured.push(round);
    }
    const warmMs = quantileOf(
      measured.map(({ warm }) => warm.totalMs),
      0.5,
    );
    return {
      rounds: measured,
      sessions: await runSessions(stack, { agent, random, count: flags.sessions, warmMs }),
    };
  }, 2);
  agent.destroy();
  const shareOf = (way: WayName) =>
    rounds.reduce((sum, round) => sum + round[way].cachedTokens, 0) /
    rounds.reduce((sum, round) => sum + round[way].promptTokens, 0);
  const medianMs = (way: WayName) =>
    quantileOf(
      rounds.map((round) => round[way].firstTokenMs),
      0.5,
    );
  return [
    "# What cached prompts save",
    "",
    `\`npm run bench:prompt-cache -- --rounds ${flags.rounds} --sessions ${flags.sessions} --seed ${flags.seed}\``,
    "",
    machine,
    `- two engines, int8, and the gateway under \`workerd serve\`, all on one machine; prompts of ${rounds[0]?.cold.promptTokens ?? 0} tokens, of which all but the last words are shared; ${rounds.length} rounds`,
    "",
    "## First tokens of prompts with a shared prefix",
    "",
    "| | found cached, % of the prompt | TTFT p50, ms |",
    "|---|---:|---:|",
    ...WAYS.map(
      (way) => `| ${way} | ${(100 * shareOf(way)).toFixed(1)} | ${medianMs(way).toFixed(1)} |`,
    ),
    "",
    "| ratio of medians, paired by round | | 95 % interval |",
    "|---|---:|---:|",
    ratioLine("cold over warm", rounds, "cold", "warm", random),
    ratioLine(
      "cold (keys, names and routing) over off (none of them)",
      rounds,
      "cold",
      "off",
      random,
    ),
    ratioLine("another tenant, warm for the first, over cold", rounds, WAYS[3], "cold", random),
    "",
    "## Conversations",
    "",
    ...sessions,
  ].join("\n");
}

/** The cold one and the one without caching take turns in being first; what is warm has to come after. */
async function measureRound(stack: MeasuredStack, agent: Agent, random: Random): Promise<Round> {
  const prefix = wordsOf(PREFIX_WORDS, random);
  // Those with the loosest targets: a cold prompt on a busy machine must not be refused.
  const [, other, own] = stack.tenants;
  const ask = async (tenant: typeof own, change: object = {}): Promise<Timing> => {
    const content = `${prefix} ${wordsOf(6, random)}`;
    const body = {
      model: stack.model,
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0,
      max_completion_tokens: 4,
      messages: [{ role: "user", content }],
      ...change,
    };
    const headers = { ...stack.gateway.headers, ...tenant?.headers };
    const target = { url: stack.gateway.url, headers, body: JSON.stringify(body), agent };
    const timing = await timeRequest(target);
    await sleep(SETTLED_AFTER_MS);
    return timing;
  };
  const taken: Partial<Record<WayName, Timing>> = {};
  const asks: Record<"cold" | "off", () => Promise<Timing>> = {
    cold: () => ask(own),
    off: () => ask(own, OFF),
  };
  for (const way of shuffle(["cold", "off"] as const, random)) {
    // oxlint-disable-next-line no-await-in-loop
    taken[way] = await asks[way]();
  }
  const { cold, off } = taken;
  if (cold === undefined || off === undefined) throw new Error("Both were asked");
  const warm = await ask(own);
  return { cold, off, warm, [WAYS[3]]: await ask(other) };
}

function ratioLine(
  name: string,
  rounds: readonly Round[],
  above: WayName,
  below: WayName,
  random: Random,
): string {
  const ratioOf = (some: readonly Round[]) =>
    quantileOf(
      some.map((round) => round[above].firstTokenMs),
      0.5,
    ) /
    quantileOf(
      some.map((round) => round[below].firstTokenMs),
      0.5,
    );
  const { low, high } = bootstrapInterval(rounds, ratioOf, random);
  return `| ${name} | ${ratioOf(rounds).toFixed(2)} | ${low.toFixed(2)} to ${high.toFixed(2)} |`;
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
