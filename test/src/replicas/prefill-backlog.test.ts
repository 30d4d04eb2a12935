import * as fc from "fast-check";
import { expect, test } from "vitest";
import { PrefillBacklog } from "../../../src/replicas/prefill-backlog.ts";

const TOKEN_MS = 0.5;

test("what was sent is computed as time passes, and no more than there is", () => {
  const backlog = new PrefillBacklog();
  backlog.add(1_000, 0, TOKEN_MS);
  expect(backlog.tokensAt(0, TOKEN_MS)).toBe(1_000);
  expect(backlog.tokensAt(100, TOKEN_MS)).toBe(800);
  backlog.add(300, 100, TOKEN_MS);
  expect(backlog.tokensAt(100, TOKEN_MS)).toBe(1_100);
  expect(backlog.tokensAt(1_000, TOKEN_MS)).toBe(0);
});

test("a clock that goes back computes nothing", () => {
  const backlog = new PrefillBacklog();
  backlog.add(10, 1_000, TOKEN_MS);
  expect(backlog.tokensAt(0, TOKEN_MS)).toBe(10);
});

test("it is what a queue would hold that is served at that pace, whenever it is asked", () => {
  const step = fc.record({ afterMs: fc.nat(100), tokens: fc.nat(500) });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const backlog = new PrefillBacklog();
      let nowMs = 0;
      let queuedTokens = 0;
      for (const { afterMs, tokens } of steps) {
        nowMs += afterMs;
        queuedTokens = Math.max(0, queuedTokens - afterMs / TOKEN_MS);
        expect(backlog.tokensAt(nowMs, TOKEN_MS)).toBeCloseTo(queuedTokens, 6);
        queuedTokens += tokens;
        backlog.add(tokens, nowMs, TOKEN_MS);
      }
      expect(backlog.tokensAt(nowMs, TOKEN_MS)).toBeCloseTo(queuedTokens, 6);
    }),
  );
});
