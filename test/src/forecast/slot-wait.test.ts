import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Random, seededRandom } from "../../../src/base/random.ts";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { residentLives } from "../../../src/forecast/resident-life.ts";
import { slotWaitMs } from "../../../src/forecast/slot-wait.ts";
import { drawLength } from "./support/draws.ts";

const SLOTS = 64;
const TPOT_MS = 20;
const NOW_MS = 10_000_000;

/** Chats end soon and bulk late: most slots are held by bulk. */
const TENANTS = {
  chat: { share: 0.7, medianTokens: 150, sigma: 0.9 },
  bulk: { share: 0.3, medianTokens: 1500, sigma: 0.5 },
};
type Tenant = keyof typeof TENANTS;

interface Sequence {
  readonly tenantId: Tenant;
  readonly startedToken: number;
  readonly endsToken: number;
}

function startSequence(random: Random, startedToken: number): Sequence {
  const tenantId = random() < TENANTS.chat.share ? "chat" : "bulk";
  const { medianTokens, sigma } = TENANTS[tenantId];
  return {
    tenantId,
    startedToken,
    endsToken: startedToken + drawLength(random, medianTokens, sigma),
  };
}

/** Lets the sequence that ends first end, and another take its slot. Returns when that was. */
function replaceFirst(running: Sequence[], next: Sequence): number {
  running.sort((a, b) => a.endsToken - b.endsToken);
  const atToken = running.shift()?.endsToken ?? 0;
  const endsToken = atToken + next.endsToken - next.startedToken;
  running.push({ ...next, startedToken: atToken, endsToken });
  return atToken;
}

function learnedLengths(): OutputLengths {
  const outputs = new OutputLengths();
  const random = seededRandom(11);
  for (let i = 0; i < 1000; i++) {
    const { tenantId, endsToken } = startSequence(random, 0);
    outputs.learn({ tenantId, modelId: "m" }, endsToken, 0, { isCensored: false });
  }
  return outputs;
}

/** What was forecast and what came, in the mean over many full replicas in their steady state. */
function compare(waiting: number): { readonly forecastMs: number; readonly actualMs: number } {
  const outputs = learnedLengths();
  let forecastMs = 0;
  let actualMs = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const random = seededRandom(seed);
    const running = Array.from({ length: SLOTS }, () => startSequence(random, 0));
    let nowToken = 0;
    while (nowToken < 6000) {
      nowToken = replaceFirst(running, startSequence(random, 0));
    }
    const queue = Array.from({ length: waiting }, () => startSequence(random, 0));
    const known = { modelId: "m", promptTokens: 100, outputTokensMax: undefined };
    const residents = [
      ...running.map(({ tenantId, startedToken }) => ({
        ...known,
        tenantId,
        firstTokenAtMs: NOW_MS - (nowToken - startedToken) * TPOT_MS,
      })),
      ...queue.map(({ tenantId }) => ({ ...known, tenantId })),
    ];
    forecastMs += slotWaitMs({
      lives: residentLives(residents, outputs, { nowMs: NOW_MS, tpotMs: TPOT_MS }),
      load: { sequences: SLOTS + waiting, sequencesMax: SLOTS },
      tpotMs: TPOT_MS,
      strangerTokens: 300,
    });
    let atToken = nowToken;
    for (const next of [...queue, startSequence(random, 0)]) {
      atToken = replaceFirst(running, next);
    }
    actualMs += (atToken - nowToken) * TPOT_MS;
  }
  return { forecastMs: forecastMs / 60, actualMs: actualMs / 60 };
}

describe("slotWaitMs", () => {
  test.for([0, 5, 30, 200])(
    "with %i waiting agrees with what happens on replicas full of long outputs",
    (waiting) => {
      const { forecastMs, actualMs } = compare(waiting);

      expect(forecastMs / actualMs).toBeGreaterThan(0.8);
      expect(forecastMs / actualMs).toBeLessThan(1.3);
    },
  );

  test("is nothing while a slot is free, whoever is there", () => {
    expect(
      slotWaitMs({
        lives: [],
        load: { sequences: 3, sequencesMax: 4 },
        tpotMs: TPOT_MS,
        strangerTokens: 300,
      }),
    ).toBe(0);
  });

  test("is sane among strangers only: the first of many ends soon, the wait for one alone is its own", () => {
    const wait = (sequencesMax: number, sequences: number) =>
      slotWaitMs({
        lives: [],
        load: { sequences, sequencesMax },
        tpotMs: TPOT_MS,
        strangerTokens: 300,
      });
    expect(wait(100, 100)).toBeGreaterThan((300 / 100) * TPOT_MS * 0.9);
    expect(wait(100, 100)).toBeLessThan((300 / 100) * TPOT_MS * 1.2);
    expect(wait(1, 1)).toBeLessThan(300 * TPOT_MS * 1.2);
    expect(wait(1, 1)).toBeGreaterThan(300 * TPOT_MS * 0.9);
    expect(wait(100, 1100)).toBeGreaterThan(10 * 300 * TPOT_MS * 0.9);
    expect(wait(100, 1100)).toBeLessThan(10 * 300 * TPOT_MS * 1.2);
  });

  test("a limit that is near ends the wait", () => {
    const outputs = new OutputLengths();
    const resident = {
      tenantId: "bulk",
      modelId: "m",
      promptTokens: 100,
      outputTokensMax: 1000,
      firstTokenAtMs: NOW_MS - 990 * TPOT_MS,
    };
    const waitMs = slotWaitMs({
      lives: residentLives([resident], outputs, { nowMs: NOW_MS, tpotMs: TPOT_MS }),
      load: { sequences: 1, sequencesMax: 1 },
      tpotMs: TPOT_MS,
      strangerTokens: 300,
    });
    expect(waitMs).toBeLessThanOrEqual(10 * TPOT_MS);
  });

  test("is finite and grows with those that wait", () => {
    const outputs = learnedLengths();
    const residents = fc.array(
      fc.record({
        tenantId: fc.constantFrom("chat", "bulk", "nobody"),
        modelId: fc.constant("m"),
        promptTokens: fc.nat(1000),
        outputTokensMax: fc.option(fc.integer({ min: 1, max: 5000 }), { nil: undefined }),
        firstTokenAtMs: fc.integer({ min: NOW_MS - 200_000, max: NOW_MS }),
      }),
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(residents, fc.integer({ min: 1, max: 20 }), fc.nat(50), (there, slots, more) => {
        const lives = residentLives(there, outputs, { nowMs: NOW_MS, tpotMs: TPOT_MS });
        const wait = (sequences: number) =>
          slotWaitMs({
            lives,
            load: { sequences, sequencesMax: slots },
            tpotMs: TPOT_MS,
            strangerTokens: 300,
          });
        const crowd = Math.max(slots, there.length) + slots;
        expect(wait(crowd - slots)).toBeGreaterThanOrEqual(0);
        expect(wait(crowd + more)).toBeLessThan(Infinity);
        // The search is to a twentieth.
        expect(1.06 * wait(crowd + more) + 2 * TPOT_MS).toBeGreaterThan(wait(crowd));
      }),
    );
  });
});
