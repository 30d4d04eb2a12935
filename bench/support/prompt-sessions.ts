import type { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../src/base/random.ts";
import { decodeDecisions } from "../../src/pool/decision-lines.ts";
import type { LeaseId, ReplicaId } from "../../src/protocol/ids.ts";
import { ceilingOf } from "../../simulator/promises/balance-watch.ts";
import type { MeasuredStack } from "./measured-stack.ts";
import type { TimedAnswer, Timing } from "./timed-request.ts";
import { timeRequest } from "./timed-request.ts";
import { wordsOf } from "./words.ts";

const TURNS = 6;
const ENGINES = 2;
const LOAD_RATIO = 0.6;
const BLOCK_TOKENS = 16;
/** Words of the first turn, the most of which sessions do not share, and of every further one. */
const FIRST_WORDS = 300;
const TURN_WORDS = 60;

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/**
 * Runs conversations side by side, each turn behind the answer to the one before. Turns come at random, on the
 * whole as often as keeps the engines busy for 60 % of the time if each computed one after the other. Returns
 * lines of Markdown.
 */
export async function runSessions(
  stack: MeasuredStack,
  run: {
    readonly agent: Agent;
    readonly random: Random;
    readonly count: number;
    /** How long a request of which most is cached takes alone. */
    readonly warmMs: number;
  },
): Promise<readonly string[]> {
  const { random, count, warmMs } = run;
  const gapMs = warmMs / (LOAD_RATIO * ENGINES);
  // All turns together come every `gapMs`; each session waits as long as its part of them takes.
  const openSessions = Math.min(count, 8);
  const thinkMs = () => -Math.log(1 - random()) * gapMs * openSessions;
  const turns: { readonly timing: Timing; readonly oracleTokens: number }[] = [];
  let begun = 0;
  const runOne = async (): Promise<void> => {
    for (; begun < count;) {
      begun += 1;
      const messages: Message[] = [];
      let knownTokens = 0;
      for (let turn = 0; turn < TURNS; turn += 1) {
        // oxlint-disable-next-line no-await-in-loop -- a turn follows the answer before it
        await sleep(thinkMs());
        const words = wordsOf(turn === 0 ? FIRST_WORDS : TURN_WORDS, random);
        messages.push({ role: "user", content: words });
        // oxlint-disable-next-line no-await-in-loop
        const timing = await ask(stack, run.agent, messages);
        const oracleTokens = BLOCK_TOKENS * Math.floor(knownTokens / BLOCK_TOKENS);
        turns.push({ timing, oracleTokens: Math.min(oracleTokens, timing.promptTokens - 1) });
        messages.push({ role: "assistant", content: timing.answer });
        // The last token of an answer is never computed.
        knownTokens = timing.promptTokens + timing.outputTokens - 1;
      }
    }
  };
  await Promise.all(Array.from({ length: openSessions }, runOne));
  const hitTokens = turns.reduce((sum, { timing }) => sum + timing.cachedTokens, 0);
  const oracleTokens = turns.reduce((sum, turn) => sum + turn.oracleTokens, 0);
  const { dispatches, aboveCeiling } = await readBalance(stack);
  return [
    `- ${count} conversations of ${TURNS} turns, ${openSessions} at a time`,
    `- prompt tokens found cached: ${hitTokens}, ${((100 * hitTokens) / oracleTokens).toFixed(1)} % of what is there to be found by a router that knows where each conversation was before, in whole blocks (${oracleTokens})`,
    `- of ${dispatches} dispatches that the pool's log still has, ${aboveCeiling} went to an engine above ⌈1.25 × the mean⌉ of what was under way`,
  ];
}

function ask(
  stack: MeasuredStack,
  agent: Agent,
  messages: readonly Message[],
): Promise<TimedAnswer> {
  const body = JSON.stringify({
    model: stack.model,
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0,
    max_completion_tokens: 24,
    messages,
  });
  const headers = { ...stack.gateway.headers, ...stack.tenants.at(-1)?.headers };
  return timeRequest({ url: stack.gateway.url, headers, body, agent });
}

/** Follows the pool's own log: what each engine had when it was sent another request. */
async function readBalance({ admin }: MeasuredStack) {
  const url = `${admin.url}/pools/local/decisions`;
  const response = await fetch(url, { headers: admin.headers });
  const { records } = decodeDecisions(await response.text());
  const placeOf = new Map<LeaseId, ReplicaId>();
  let dispatches = 0;
  let aboveCeiling = 0;
  for (const { call, effects } of records.flatMap(({ calls }) => calls)) {
    if (call.kind === "settle") placeOf.delete(call.leaseId);
    for (const effect of effects) {
      if (effect.kind !== "dispatch") continue;
      placeOf.set(effect.leaseId, effect.dispatch.replicaId);
      dispatches += 1;
      const { replicaId } = effect.dispatch;
      const there = [...placeOf.values()].filter((each) => each === replicaId).length;
      if (there > ceilingOf(placeOf.size, ENGINES)) aboveCeiling += 1;
    }
  }
  return { dispatches, aboveCeiling };
}
