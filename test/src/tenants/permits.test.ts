import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestId } from "../../../src/protocol/ids.ts";
import type { PermitHold } from "../../../src/tenants/permits.ts";
import { ANSWER_MS_MAX, HOLD_MS_MAX } from "../../../src/slo/answer-span.ts";
import { TenantPermits } from "../../../src/tenants/permits.ts";

function ask(permits: TenantPermits, name: string, concurrencyMax: number, nowMs = 0) {
  return permits.acquire({ requestId: RequestId.parse(name), concurrencyMax }, nowMs);
}

/** Asks for a permit that must be granted. */
function take(permits: TenantPermits, name: string, concurrencyMax: number, nowMs = 0): PermitHold {
  const verdict = ask(permits, name, concurrencyMax, nowMs);
  if (verdict.kind !== "granted") throw new Error(`The permit of ${name} was refused`);
  return verdict.hold;
}

/** Who holds what, the plain way. */
class Dictionary {
  readonly #entries = new Map<string, { holders: Set<number>; expiresAtMs: number }>();

  forgetExpired(nowMs: number): void {
    for (const [name, { expiresAtMs }] of this.#entries) {
      if (expiresAtMs <= nowMs) this.#entries.delete(name);
    }
  }

  grants(name: string, concurrencyMax: number): boolean {
    const holders = this.#entries.get(name)?.holders.size ?? 0;
    return holders === 0 ? this.#entries.size < concurrencyMax : holders < 8;
  }

  hold({ requestId, number }: PermitHold, nowMs: number): void {
    const fresh = { holders: new Set<number>(), expiresAtMs: nowMs + HOLD_MS_MAX };
    const entry = this.#entries.get(requestId) ?? fresh;
    entry.holders.add(number);
    this.#entries.set(requestId, entry);
  }

  release({ requestId, number }: PermitHold): void {
    const entry = this.#entries.get(requestId);
    entry?.holders.delete(number);
    if (entry?.holders.size === 0) this.#entries.delete(requestId);
  }
}

describe("TenantPermits", () => {
  test("no more than the limit are granted", () => {
    const permits = new TenantPermits();
    take(permits, "a", 2);
    take(permits, "b", 2);
    expect(ask(permits, "c", 2).kind).toBe("rejected");
  });

  test("a released permit goes to the next request", () => {
    const permits = new TenantPermits();
    permits.release(take(permits, "a", 1), 10);
    expect(ask(permits, "b", 1, 10).kind).toBe("granted");
  });

  test("a hold that is released twice frees one place", () => {
    const permits = new TenantPermits();
    const hold = take(permits, "a", 1);
    permits.release(hold, 1);
    take(permits, "b", 1, 2);
    permits.release(hold, 3);
    expect(ask(permits, "c", 1, 4).kind).toBe("rejected");
  });

  test("asking again for the same request takes no second place", () => {
    const permits = new TenantPermits();
    take(permits, "a", 2);
    take(permits, "a", 2);
    expect(ask(permits, "b", 2).kind).toBe("granted");
  });

  test("a permit with two holders comes back when both have let go", () => {
    const permits = new TenantPermits();
    const first = take(permits, "a", 1);
    const second = take(permits, "a", 1);
    permits.release(first, 1);
    expect(ask(permits, "b", 1, 2).kind).toBe("rejected");
    permits.release(second, 3);
    expect(ask(permits, "b", 1, 4).kind).toBe("granted");
  });

  test("one request cannot be asked for without end", () => {
    const permits = new TenantPermits();
    for (let count = 0; count < 8; count += 1) take(permits, "a", 100);
    expect(ask(permits, "a", 100).kind).toBe("rejected");
    permits.checkInvariants();
  });

  test("a permit that nobody gives back expires", () => {
    const permits = new TenantPermits();
    const lost = take(permits, "a", 1);
    expect(ask(permits, "b", 1, HOLD_MS_MAX - 1).kind).toBe("rejected");
    take(permits, "b", 1, HOLD_MS_MAX);
    permits.release(lost, HOLD_MS_MAX + 1);
    expect(ask(permits, "c", 1, HOLD_MS_MAX + 2).kind).toBe("rejected");
  });

  test("a permit is still held when the longest answer that is allowed ends", () => {
    const permits = new TenantPermits();
    take(permits, "a", 1);
    expect(ask(permits, "b", 1, ANSWER_MS_MAX).kind).toBe("rejected");
  });

  test("an old hold does not release the permit that its request was granted later", () => {
    const permits = new TenantPermits();
    const lost = take(permits, "a", 1);
    take(permits, "a", 1, HOLD_MS_MAX);
    permits.release(lost, HOLD_MS_MAX + 1);
    expect(ask(permits, "b", 1, HOLD_MS_MAX + 2).kind).toBe("rejected");
  });

  test("a lower limit takes no permit away and grants none until enough are back", () => {
    const permits = new TenantPermits();
    const holds = ["a", "b", "c"].map((name) => take(permits, name, 3));
    expect(ask(permits, "d", 1).kind).toBe("rejected");
    for (const hold of holds) permits.release(hold, 1);
    expect(ask(permits, "d", 1, 2).kind).toBe("granted");
  });

  test("however high the limit, the number of permits is bounded", () => {
    const permits = new TenantPermits();
    for (let count = 0; count < 10_000; count += 1) take(permits, `r${count}`, 1_000_000);
    expect(ask(permits, "one more", 1_000_000).kind).toBe("rejected");
    permits.checkInvariants();
  });

  test("a refused request is told to wait as long as a place usually takes to come free", () => {
    const permits = new TenantPermits();
    expect(ask(permits, "x", 0)).toEqual({ kind: "rejected", retryAfterMs: 1000 });
    permits.release(take(permits, "a", 2, 0), 12_000);
    take(permits, "b", 2, 12_000);
    take(permits, "c", 2, 12_000);
    expect(ask(permits, "d", 2, 12_000)).toEqual({ kind: "rejected", retryAfterMs: 6000 });
  });

  test("any mix of calls grants exactly what a dictionary of holders would", () => {
    const call = fc.record({
      isRelease: fc.boolean(),
      request: fc.nat(6),
      holder: fc.nat(30),
      concurrencyMax: fc.nat(4),
      gapMs: fc.oneof(fc.nat(100), fc.nat(2 * HOLD_MS_MAX)),
    });
    fc.assert(
      fc.property(fc.array(call, { maxLength: 60 }), (calls) => {
        const permits = new TenantPermits();
        const model = new Dictionary();
        const holds: PermitHold[] = [];
        const verdicts: string[] = [];
        const expected: string[] = [];
        let nowMs = 0;
        for (const { isRelease, request, holder, concurrencyMax, gapMs } of calls) {
          nowMs += gapMs;
          model.forgetExpired(nowMs);
          const hold = holds[holder];
          if (isRelease) {
            if (hold !== undefined) permits.release(hold, nowMs);
            if (hold !== undefined) model.release(hold);
            continue;
          }
          const verdict = ask(permits, `r${request}`, concurrencyMax, nowMs);
          verdicts.push(verdict.kind);
          expected.push(model.grants(`r${request}`, concurrencyMax) ? "granted" : "rejected");
          permits.checkInvariants();
          if (verdict.kind !== "granted") continue;
          holds.push(verdict.hold);
          model.hold(verdict.hold, nowMs);
        }
        expect(verdicts).toEqual(expected);
      }),
    );
  });
});
