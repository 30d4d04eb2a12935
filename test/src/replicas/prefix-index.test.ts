import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { ChainNames } from "../../../src/replicas/chain-names.ts";
import {
  POOL_PREFIX_KEYS_MAX,
  PREFIX_KEYS_MAX,
  PrefixIndex,
  prefixKeysMaxOf,
} from "../../../src/replicas/prefix-index.ts";
import { chainOfText, keysOfText } from "../../support/prompt-chains.ts";

const MINUTE_MS = 60_000;

/** How many letters of a text are a hit. */
function hitOf(index: PrefixIndex, text: string, nowMs = 0): number {
  return Math.round(index.hitRatio(new ChainNames(chainOfText(text)), nowMs) * text.length);
}

function note(index: PrefixIndex, text: string, { isForeign = false, nowMs = 0 } = {}): void {
  index.note(chainOfText(text), { isForeign, nowMs });
  index.checkInvariants();
}

function tell(
  index: PrefixIndex,
  told: { sequence: number; isWhole?: boolean; stored?: string[]; removed?: string[] },
): boolean {
  const { sequence, isWhole = false, stored = [], removed = [] } = told;
  const isNext = index.told(
    { sequence, isWhole, stored: stored.join(""), removed: removed.join("") },
    0,
  );
  index.checkInvariants();
  return isNext;
}

describe("PrefixIndex", () => {
  test("nothing is a hit before anything was sent", () => {
    expect(hitOf(new PrefixIndex(), "abc")).toBe(0);
    expect(new PrefixIndex().hitRatio(undefined, 0)).toBe(0);
    expect(new PrefixIndex().hitRatio(new ChainNames(chainOfText("")), 0)).toBe(0);
  });

  test("the longest beginning that was sent is the hit", () => {
    const index = new PrefixIndex();
    note(index, "abc");
    expect(hitOf(index, "abcd")).toBe(3);
    expect(hitOf(index, "abx")).toBe(2);
    expect(hitOf(index, "xbc")).toBe(0);
  });

  test("what prompts have in common is forgotten last", () => {
    const index = new PrefixIndex(3);
    note(index, "abcde");
    expect(hitOf(index, "abcde")).toBe(3);
    note(index, "x");
    expect(hitOf(index, "abcde")).toBe(2);
  });

  test("what was sent again is as good as new", () => {
    const index = new PrefixIndex(2);
    for (const text of ["a", "b", "a", "c"]) note(index, text);
    expect(hitOf(index, "a")).toBe(1);
    expect(hitOf(index, "b")).toBe(0);
  });

  test("to ask changes nothing", () => {
    const index = new PrefixIndex(2);
    note(index, "a");
    note(index, "b");
    hitOf(index, "a");
    note(index, "c");
    expect(hitOf(index, "a")).toBe(0);
  });

  test("another process has nothing cached", () => {
    const index = new PrefixIndex();
    note(index, "abc");
    index.learnHit(100, 0);
    index.forget();
    expect(hitOf(index, "abc")).toBe(0);
    expect(index.trustRatio).toBe(1);
  });

  test("what was sent and never told is believed for a minute, of a foreign server for ten", () => {
    const index = new PrefixIndex();
    note(index, "ab");
    note(index, "xy", { isForeign: true });
    expect([hitOf(index, "ab", MINUTE_MS - 1), hitOf(index, "ab", MINUTE_MS)]).toEqual([2, 0]);
    expect(hitOf(index, "xy", 10 * MINUTE_MS - 1)).toBe(2);
    expect(hitOf(index, "xy", 10 * MINUTE_MS)).toBe(0);
    note(index, "xy", { isForeign: true, nowMs: 5 * MINUTE_MS });
    expect(hitOf(index, "xy", 10 * MINUTE_MS)).toBe(2);
    expect(index.state.keys.size).toBe(2);
  });

  test("what the replica tells is believed until it tells otherwise", () => {
    const index = new PrefixIndex();
    note(index, "ab");
    expect(tell(index, { sequence: 1, isWhole: true, stored: keysOfText("ab") })).toBe(true);
    expect(hitOf(index, "ab", 100 * MINUTE_MS)).toBe(2);
    note(index, "ab", { nowMs: 5 });
    expect(hitOf(index, "ab", 100 * MINUTE_MS)).toBe(2);
    expect(tell(index, { sequence: 2, removed: keysOfText("ab").slice(1) })).toBe(true);
    expect(hitOf(index, "ab")).toBe(1);
  });

  test("what was sent since is not lost with what the replica has given up before", () => {
    const index = new PrefixIndex();
    note(index, "ab");
    tell(index, { sequence: 1, removed: keysOfText("ab") });
    expect(hitOf(index, "ab")).toBe(2);
  });

  test("a whole account voids what was told before, and not what was sent since", () => {
    const index = new PrefixIndex();
    tell(index, { sequence: 1, stored: keysOfText("ab") });
    note(index, "xy");
    tell(index, { sequence: 7, isWhole: true, stored: keysOfText("c") });
    expect(["ab", "xy", "c"].map((text) => hitOf(index, text))).toEqual([0, 2, 1]);
  });

  test("a gap in what is told is noticed, once", () => {
    const index = new PrefixIndex();
    expect(tell(index, { sequence: 1 })).toBe(true);
    expect(tell(index, { sequence: 3 })).toBe(false);
    expect(tell(index, { sequence: 4 })).toBe(true);
    expect(tell(index, { sequence: 9, isWhole: true })).toBe(true);
    // A pool that begins anew has heard nothing yet.
    expect(tell(new PrefixIndex(), { sequence: 5 })).toBe(false);
  });

  test("foreseen hits that do not come are counted on less and less, and those that come again more", () => {
    const index = new PrefixIndex();
    for (let time = 0; time < 50; time += 1) index.learnHit(1000, 0);
    index.checkInvariants();
    expect(index.trustRatio).toBeCloseTo(0.05);
    for (let time = 0; time < 50; time += 1) index.learnHit(1000, 2000);
    expect(index.trustRatio).toBeGreaterThan(0.99);
    index.learnHit(0, 0);
    expect(index.trustRatio).toBeGreaterThan(0.99);
  });

  test("a smaller bound holds at once", () => {
    const index = new PrefixIndex(4);
    note(index, "abcd");
    index.limitTo(2);
    index.checkInvariants();
    expect(hitOf(index, "abcd")).toBe(2);
  });

  test("whatever is sent and told, the keys stay within their bound and the last prompt is a hit", () => {
    const text = fc.stringMatching(/^[ab]{1,6}$/);
    const call = fc.oneof(
      fc.record({ sent: text }),
      fc.record({ stored: text, removed: text, isWhole: fc.boolean() }),
    );
    fc.assert(
      fc.property(
        fc.array(call, { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 8 }),
        (calls, keysMax) => {
          const index = new PrefixIndex(keysMax);
          let missing = 0;
          for (const [number, one] of calls.entries()) {
            if ("sent" in one) {
              note(index, one.sent);
              missing += Math.max(0, Math.min(one.sent.length, keysMax) - hitOf(index, one.sent));
            } else {
              const [stored, removed] = [keysOfText(one.stored), keysOfText(one.removed)];
              tell(index, { sequence: number, isWhole: one.isWhole, stored, removed });
            }
          }
          expect(missing).toBe(0);
        },
      ),
    );
  });

  test("a copy of its state goes on as it does", () => {
    const index = new PrefixIndex(3);
    note(index, "ab");
    tell(index, { sequence: 1, stored: keysOfText("a") });
    const revived = new PrefixIndex(3, copyState(index.state));
    for (const one of [index, revived]) note(one, "xy");
    expect(tell(revived, { sequence: 2 })).toBe(true);
    for (const text of ["a", "ab", "x", "xy"]) {
      expect(hitOf(revived, text)).toBe(hitOf(index, text));
    }
  });
});

test("a pool's replicas share what it may remember", () => {
  expect([1, 8, 9, 128].map(prefixKeysMaxOf)).toEqual([16_384, 16_384, 14_563, 1_024]);
  expect(prefixKeysMaxOf(0)).toBe(PREFIX_KEYS_MAX);
  expect(128 * prefixKeysMaxOf(128)).toBeLessThanOrEqual(POOL_PREFIX_KEYS_MAX);
});
