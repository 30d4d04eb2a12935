import { describe, expect, test } from "vitest";
import type { FromEngine } from "../../../gpu-backend/kv-peers/kv-messages.ts";
import { PeerTier } from "../../../gpu-backend/kv-peers/peer-tier.ts";

const BLOCK_BYTES = 4;
const VERSION = { modelRevision: "model", blockTokens: 16, blockBytes: BLOCK_BYTES };
const PEER = "http://peer:1";

function aPeerTier(urls: readonly string[] = [PEER]) {
  const posted: FromEngine[] = [];
  const faults: string[] = [];
  const clock = { nowMs: 0 };
  const tier = new PeerTier({
    urls,
    version: VERSION,
    nowMs: () => clock.nowMs,
    post: (message) => posted.push(message),
    onFault: (message) => faults.push(message),
  });
  const kept: string[] = [];
  const ended: number[] = [];
  let fetches = 0;
  const fetch = (hashes: readonly string[], url = PEER) => {
    fetches += 1;
    const number = fetches;
    return tier.fetch(url, hashes, {
      keep: (hash, bytes) => kept.push(`${hash}:${bytes.join("")}`),
      end: () => ended.push(number),
    });
  };
  return { tier, posted, faults, clock, kept, ended, fetch };
}

const bytesOf = (...blocks: readonly number[]) =>
  Uint8Array.from(blocks.flatMap((value) => Array.from({ length: BLOCK_BYTES }, () => value)));

test("only who was given is asked", () => {
  const { tier, fetch, posted } = aPeerTier();
  expect(tier.mayAsk(PEER)).toBe(true);
  for (const url of ["http://peer:12", "http://peer", "http://peer:1/", "http://169.254.169.254"]) {
    expect(tier.mayAsk(url)).toBe(false);
    expect(() => fetch(["a"], url)).toThrow("A peer is asked that may be");
  }
  expect(posted).toEqual([]);
});

test("what comes is kept under the hashes that were asked for, in order", () => {
  const { tier, fetch, kept, ended, posted } = aPeerTier();
  fetch(["a", "b", "c"]);
  expect(posted).toEqual([
    { kind: "fetch", fetch: 1, url: PEER, version: VERSION, hashes: ["a", "b", "c"] },
  ]);
  tier.hear({ kind: "blocks", fetch: 1, from: 0, bytes: bytesOf(1, 2) });
  tier.hear({ kind: "blocks", fetch: 1, from: 2, bytes: bytesOf(3) });
  expect(ended).toEqual([]);
  tier.hear({ kind: "fetched", fetch: 1, outcome: { kind: "done" } });
  tier.hear({ kind: "fetched", fetch: 1, outcome: { kind: "done" } });
  expect(kept).toEqual(["a:1111", "b:2222", "c:3333"]);
  expect(ended).toEqual([1]);
  expect(tier.statistics).toEqual({
    fetches: 1,
    failedFetches: 0,
    loadedBlocks: 3,
    loadedBytes: 12,
  });
});

test("no more is asked for than one answer may have", () => {
  const { fetch, posted } = aPeerTier();
  fetch(Array.from({ length: 16_385 }, (_, index) => `${index}`));
  const [message] = posted;
  expect(message?.kind === "fetch" && message.hashes.length).toBe(16_384);
});

test("what is given up ends once, and what comes later is nobody's", () => {
  const { tier, fetch, kept, ended, posted } = aPeerTier();
  const giveUp = fetch(["a"]);
  giveUp();
  giveUp();
  expect(posted.at(-1)).toEqual({ kind: "give-up", fetch: 1 });
  expect(posted).toHaveLength(2);
  tier.hear({ kind: "blocks", fetch: 1, from: 0, bytes: bytesOf(1) });
  tier.hear({ kind: "fetched", fetch: 1, outcome: { kind: "done" } });
  expect(ended).toEqual([1]);
  expect(kept).toEqual([]);
  expect(tier.statistics.failedFetches).toBe(1);
});

describe("a peer that fails", () => {
  test.each([
    ["failed", 5_000],
    ["refused", 60_000],
  ] as const)("is left alone, if it %s for %i ms, which is said once", (kind, restMs) => {
    const { tier, fetch, faults, clock } = aPeerTier();
    fetch(["a"]);
    fetch(["b"]);
    for (const number of [1, 2]) {
      tier.hear({ kind: "fetched", fetch: number, outcome: { kind, message: "why" } });
    }
    expect(faults).toEqual([`No KV from ${PEER} for now: why`]);
    clock.nowMs = restMs - 1;
    expect(tier.mayAsk(PEER)).toBe(false);
    clock.nowMs = restMs;
    expect(tier.mayAsk(PEER)).toBe(true);
    tier.checkInvariants();
  });

  test("costs no other peer anything", () => {
    const { tier, fetch } = aPeerTier([PEER, "http://other:1"]);
    fetch(["a"]);
    tier.hear({ kind: "fetched", fetch: 1, outcome: { kind: "failed", message: "why" } });
    expect(tier.mayAsk("http://other:1")).toBe(true);
  });
});

test("so many are asked at once, and nobody beyond", () => {
  const { tier, fetch } = aPeerTier();
  for (let count = 0; count < 16; count += 1) fetch([`${count}`]);
  expect(tier.mayAsk(PEER)).toBe(false);
  tier.checkInvariants();
  tier.hear({ kind: "fetched", fetch: 3, outcome: { kind: "done" } });
  expect(tier.mayAsk(PEER)).toBe(true);
});

test("what blocks take is learned from those that came", () => {
  const { tier, fetch, clock } = aPeerTier();
  const believedMs = tier.predictMs(10);
  expect(tier.predictMs(0)).toBe(0);
  for (let number = 1; number <= 20; number += 1) {
    fetch(["a", "b"]);
    clock.nowMs += 25;
    tier.hear({ kind: "blocks", fetch: number, from: 0, bytes: bytesOf(1, 2) });
    tier.hear({ kind: "fetched", fetch: number, outcome: { kind: "done" } });
  }
  expect(tier.predictMs(10)).toBeGreaterThan(5 * believedMs);
});
