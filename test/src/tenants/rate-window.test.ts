import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RateWindow } from "../../../src/tenants/rate-window.ts";

const MINUTE_MS = 60_000;
/** A charge may count longer than its minute by no more than this. */
const SLOT_MS = 500;

const remaining = (window: RateWindow, limit: number, nowMs: number) =>
  window.standing(limit, nowMs).remaining;

describe("RateWindow", () => {
  test("what is charged counts for its minute and then no more", () => {
    const window = new RateWindow();
    window.charge(7, 0);
    expect(remaining(window, 10, MINUTE_MS)).toBe(3);
    expect(remaining(window, 10, MINUTE_MS + SLOT_MS)).toBe(10);
  });

  test("a full window says when enough of it will be back, oldest first", () => {
    const window = new RateWindow();
    window.charge(4, 0);
    window.charge(6, 20_000);
    expect(window.fitsAfterMs(4, 10, 30_000)).toBe(MINUTE_MS + SLOT_MS - 30_000);
    expect(window.fitsAfterMs(5, 10, 30_000)).toBe(MINUTE_MS + SLOT_MS + 20_000 - 30_000);
    expect(window.fitsAfterMs(5, 15, 30_000)).toBe(0);
  });

  test("what is larger than the limit never fits, however empty the window is", () => {
    expect(new RateWindow().fitsAfterMs(11, 10, 0)).toBe(Infinity);
    expect(new RateWindow().fitsAfterMs(10, 10, 0)).toBe(0);
  });

  test("a refund gives back at once, and nothing of what others have charged since", () => {
    const window = new RateWindow();
    const slot = window.charge(10, 0);
    window.refund(slot, 8, 1000);
    expect(remaining(window, 10, 1000)).toBe(8);
    window.charge(8, 1000);
    window.refund(slot, 2, MINUTE_MS + SLOT_MS);
    expect(remaining(window, 10, MINUTE_MS + SLOT_MS)).toBe(2);
  });

  test("says when some comes back and when all of it does", () => {
    const window = new RateWindow();
    expect(window.standing(10, 0)).toEqual({ limit: 10, remaining: 10, nextMs: 0, resetMs: 0 });
    window.charge(1, 0);
    window.charge(1, 10_000);
    const standing = window.standing(10, 15_000);
    expect(standing).toEqual({ limit: 10, remaining: 8, nextMs: 45_500, resetMs: 55_500 });
  });

  test("with a lower limit nothing is left, rather than less than nothing", () => {
    const window = new RateWindow();
    window.charge(10, 0);
    expect(remaining(window, 4, 0)).toBe(0);
    expect(window.fitsAfterMs(1, 4, 0)).toBe(MINUTE_MS + SLOT_MS);
  });

  test("a clock that runs backwards neither loses a charge nor keeps it for long", () => {
    const window = new RateWindow();
    window.charge(1, 10_000);
    window.charge(1, 3000);
    window.checkInvariants();
    expect(remaining(window, 10, 10_000)).toBe(8);
    expect(remaining(window, 10, 10_000 + MINUTE_MS + SLOT_MS)).toBe(10);
  });

  test("however many charges come, no more than a minute of them is remembered", () => {
    const window = new RateWindow();
    for (let atMs = 0; atMs < 10 * MINUTE_MS; atMs += 77) window.charge(1, atMs);
    window.checkInvariants();
    expect(window.state.slots.length).toBeLessThanOrEqual(121);
  });

  test("after any charges and refunds, what is used and what is left make the limit", () => {
    const step = fc.record({
      gapMs: fc.oneof(fc.nat(900), fc.nat(2 * MINUTE_MS)),
      amount: fc.nat(20),
      /** Which of the charges so far is refunded before the next one, and how much of it. */
      refunded: fc.nat(30),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const window = new RateWindow();
        const charges: { slot: number; atMs: number; amount: number }[] = [];
        let nowMs = 0;
        for (const { gapMs, amount, refunded, part } of steps) {
          nowMs += gapMs;
          const earlier = charges[refunded];
          if (earlier !== undefined) {
            const back = Math.floor(earlier.amount * part);
            window.refund(earlier.slot, back, nowMs);
            earlier.amount -= back;
          }
          charges.push({ slot: window.charge(amount, nowMs), atMs: nowMs, amount });
          window.checkInvariants();
          const used = charges
            .filter(
              ({ atMs }) => Math.floor(atMs / SLOT_MS) * SLOT_MS + SLOT_MS + MINUTE_MS > nowMs,
            )
            .reduce((sum, charge) => sum + charge.amount, 0);
          expect(used + remaining(window, 10_000, nowMs)).toBe(10_000);
        }
      }),
    );
  });
});
