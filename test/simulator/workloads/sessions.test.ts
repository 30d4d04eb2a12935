import { expect, test } from "vitest";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";
import {
  expectedSessionPrice,
  placedTurns,
  sessionTurns,
} from "../../../simulator/workloads/sessions.ts";
import type { SessionShape } from "../../../simulator/workloads/tenant-profile.ts";
import { meanOf } from "./moments.ts";
import { tenantNamed } from "./tenant-named.ts";

const SHAPE: SessionShape = {
  turnsMean: 4,
  turnsMax: 12,
  turnTokensMean: 80,
  thinkMeanMs: 10_000,
  answerTokenMs: 20,
  promptTokensMax: 100_000,
};
const CHAT = tenantNamed("chat");

function session(seed: number, shape: Partial<SessionShape> = {}) {
  return [...sessionTurns(CHAT, { ...SHAPE, ...shape }, seededRandom(seed))];
}

test("a turn's prompt holds the prompt and answer before it and something new, and comes after that answer", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const turns = session(seed);
    for (const [index, turn] of turns.entries()) {
      const before = turns[index - 1];
      if (before === undefined) continue;
      expect(turn.promptTokens).toBeGreaterThan(before.promptTokens + before.outputTokens);
      expect(turn.atMs).toBeGreaterThanOrEqual(before.atMs + before.outputTokens * 20);
      expect(turn.prefixGroup).toBe(before.prefixGroup);
      expect(turn.prefixTokens).toBe(before.prefixTokens);
    }
  }
});

test("turns are geometric around their mean, which the bound cuts", () => {
  const counts = Array.from(
    { length: 4000 },
    (_, seed) => session(seed, { turnsMax: 1000 }).length,
  );
  expect(Math.abs(meanOf(counts) - 4)).toBeLessThan(0.3);
  const bounded = Array.from({ length: 200 }, (_, seed) => session(seed, { turnsMax: 3 }).length);
  expect(Math.max(...bounded)).toBe(3);
});

/** The longest prompt of a later turn in 300 sessions. */
const longestOf = (promptTokensMax: number) =>
  Array.from({ length: 300 }, (_, seed) => session(seed, { promptTokensMax }).slice(1))
    .flat()
    .reduce((max, { promptTokens }) => Math.max(max, promptTokens), 0);

test("a session ends before its prompt would be longer than the bound", () => {
  expect(longestOf(2000)).toBeLessThanOrEqual(2000);
  expect(longestOf(100_000)).toBeGreaterThan(2000);
});

const STARTS = Array.from({ length: 50 }, (_, index) => index * 500);

const openSession = (random: Random) => sessionTurns(CHAT, SHAPE, random);

function placed(starts: readonly number[], openMax?: number) {
  const bounds = { untilMs: 1e6, ...(openMax === undefined ? {} : { openMax }) };
  return [...placedTurns(starts, openSession, seededRandom(5), bounds)];
}

test("turns of many sessions come in order of time, and each session starts when it was told to", () => {
  const turns = placed(STARTS);
  expect(turns.every(({ atMs }, index) => atMs >= (turns[index - 1]?.atMs ?? 0))).toBe(true);
  for (const [number, startAtMs] of STARTS.entries()) {
    expect(turns.find((turn) => turn.session === number)?.atMs).toBe(startAtMs);
  }
  expect(turns.length).toBeGreaterThan(2 * STARTS.length);
});

test("a session is the same whatever others are open", () => {
  const own = (turns: ReturnType<typeof placed>) => turns.filter((turn) => turn.session === 3);
  expect(own(placed(STARTS.slice(0, 4)))).toEqual(own(placed(STARTS)));
});

test("at the bound of open sessions a new one has only its first turn", () => {
  const turns = placed(STARTS, 2);
  const turnsOf = (number: number) => turns.filter((turn) => turn.session === number).length;
  expect(STARTS.every((_, number) => turnsOf(number) >= 1)).toBe(true);
  expect(turns.length).toBeLessThan(placed(STARTS).length);
  expect(placed(STARTS, 0).map(({ atMs }) => atMs)).toEqual(STARTS);
});

test("the price of a session counts all its turns", () => {
  const turnsPriced = expectedSessionPrice(CHAT, SHAPE, () => 1);
  expect(turnsPriced).toBeGreaterThan(3.3);
  expect(turnsPriced).toBeLessThan(4.2);
});
