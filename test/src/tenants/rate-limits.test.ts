import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import type { Reservation } from "../../../src/tenants/rate-limits.ts";
import { RateLimits } from "../../../src/tenants/rate-limits.ts";

const BOTH = { requestsPerMinuteMax: 10, tokensPerMinuteMax: 1000 };
const MINUTE_MS = 60_000;

const used = (tokens: number) => ({ kind: "used", tokens }) as const;
const REFUNDED = { kind: "refunded" } as const;

const remainingOf = (limits: RateLimits, nowMs: number) => {
  const { requests, tokens } = limits.standings(BOTH, nowMs);
  return { requests: requests?.remaining, tokens: tokens?.remaining };
};

interface Begun {
  readonly atMs: number;
  readonly reservation: Reservation;
  requests: number;
  tokens: number;
}

/** Whether a request has room beside what was begun since an instant, the plain way. */
function hasRoom(begun: readonly Begun[], tokens: number, sinceMs: number): boolean {
  const recent = begun.filter(({ atMs }) => atMs > sinceMs);
  const requestSum = recent.reduce((sum, one) => sum + one.requests, 1);
  const tokenSum = recent.reduce((sum, one) => sum + one.tokens, tokens);
  return requestSum <= BOTH.requestsPerMinuteMax && tokenSum <= BOTH.tokensPerMinuteMax;
}

describe("RateLimits", () => {
  test("a reservation takes its upper bound, and settling gives back what was not used", () => {
    const limits = new RateLimits();
    const reservation = limits.reserve(400, BOTH, 0);
    expect(remainingOf(limits, 0)).toEqual({ requests: 9, tokens: 600 });
    limits.settle(reservation, used(150), 5000);
    expect(remainingOf(limits, 5000)).toEqual({ requests: 9, tokens: 850 });
  });

  test("a request that never began counts neither as a request nor by its tokens", () => {
    const limits = new RateLimits();
    limits.settle(limits.reserve(400, BOTH, 0), REFUNDED, 5000);
    expect(remainingOf(limits, 5000)).toEqual({ requests: 10, tokens: 1000 });
  });

  test("what was used beyond the reservation counts from when it is known", () => {
    const limits = new RateLimits();
    limits.settle(limits.reserve(400, BOTH, 0), used(500), 30_000);
    expect(remainingOf(limits, 30_000).tokens).toBe(500);
    expect(remainingOf(limits, MINUTE_MS + 500).tokens).toBe(900);
    expect(remainingOf(limits, MINUTE_MS + 30_500).tokens).toBe(1000);
  });

  test("only the first settlement of a reservation counts", () => {
    const limits = new RateLimits();
    const reservation = limits.reserve(400, BOTH, 0);
    limits.settle(reservation, used(100), 0);
    limits.settle(reservation, REFUNDED, 0);
    expect(remainingOf(limits, 0)).toEqual({ requests: 9, tokens: 900 });
  });

  test("what nobody settles counts as reserved for its minute and no longer", () => {
    const limits = new RateLimits();
    const lost = limits.reserve(400, BOTH, 0);
    expect(remainingOf(limits, MINUTE_MS)).toEqual({ requests: 9, tokens: 600 });
    expect(remainingOf(limits, MINUTE_MS + 500)).toEqual({ requests: 10, tokens: 1000 });
    limits.settle(lost, REFUNDED, MINUTE_MS + 500);
    expect(remainingOf(limits, MINUTE_MS + 500)).toEqual({ requests: 10, tokens: 1000 });
  });

  test("names the limit that lasts longest", () => {
    const limits = new RateLimits();
    for (let count = 0; count < 10; count += 1) limits.reserve(10, BOTH, 0);
    expect(limits.obstacleTo(100, BOTH, 1000)).toEqual({ limit: "requests", retryAfterMs: 59_500 });
    limits.reserve(850, BOTH, 2000);
    expect(limits.obstacleTo(200, BOTH, 2000)).toEqual({ limit: "tokens", retryAfterMs: 60_500 });
  });

  test("a request that is larger than the whole limit never begins", () => {
    const obstacle = new RateLimits().obstacleTo(1001, BOTH, 0);
    expect(obstacle).toEqual({ limit: "tokens", retryAfterMs: Infinity });
  });

  test("what is not limited is neither counted nor told", () => {
    const limits = new RateLimits();
    limits.reserve(400, { tokensPerMinuteMax: 1000 }, 0);
    expect(limits.standings({ tokensPerMinuteMax: 1000 }, 0).requests).toBeUndefined();
    expect(remainingOf(limits, 0).requests).toBe(10);
    expect(limits.obstacleTo(10_000, {}, 0)).toBeUndefined();
  });

  test("a copy of its state goes on as the original does", () => {
    const limits = new RateLimits();
    limits.reserve(400, BOTH, 0);
    const copy = new RateLimits(copyState(limits.state));
    expect(copy.standings(BOTH, 7000)).toEqual(limits.standings(BOTH, 7000));
  });

  test("in any order of reserving, settling and leaving open, a minute takes the limit and no more", () => {
    const step = fc.record({
      gapMs: fc.oneof(fc.constant(0), fc.nat(3000), fc.nat(2 * MINUTE_MS)),
      /** Which of the reservations so far is settled before the next request, and how. */
      settled: fc.nat(30),
      usedRatio: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
      tokens: fc.nat(700),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const limits = new RateLimits();
        const begun: Begun[] = [];
        let nowMs = 0;
        for (const { gapMs, settled, usedRatio, tokens } of steps) {
          nowMs += gapMs;
          const earlier = begun[settled];
          if (earlier?.reservation.isSettled === false) {
            earlier.requests = usedRatio === null ? 0 : 1;
            earlier.tokens = Math.floor(earlier.tokens * (usedRatio ?? 0));
            const settlement = usedRatio === null ? REFUNDED : used(earlier.tokens);
            limits.settle(earlier.reservation, settlement, nowMs);
          }
          limits.checkInvariants();
          const obstacle = limits.obstacleTo(tokens, BOTH, nowMs);
          const isGranted = obstacle === undefined;
          // What is charged counts for a minute at least, and half a second longer at most.
          expect(isGranted && !hasRoom(begun, tokens, nowMs - MINUTE_MS)).toBe(false);
          expect(!isGranted && hasRoom(begun, tokens, nowMs - MINUTE_MS - 500)).toBe(false);
          const later = nowMs + (obstacle?.retryAfterMs ?? 0);
          const copy = new RateLimits(copyState(limits.state));
          expect(copy.obstacleTo(tokens, BOTH, later)).toBeUndefined();
          if (!isGranted) continue;
          const reservation = limits.reserve(tokens, BOTH, nowMs);
          begun.push({ atMs: nowMs, requests: 1, tokens, reservation });
        }
      }),
    );
  });
});
