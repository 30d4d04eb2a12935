import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Prospects } from "../../src/pool/offer.ts";
import { AttemptPatience } from "../../workers/attempt-patience.ts";

const NEVER = async () => false;
const HOPE: Prospects = { hasOther: true, isSilent: false };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** An attempt's patience, what the pool is asked, and after how many ms it gave up. */
function aPatience(limitMs: number, ...answers: readonly (Prospects | undefined)[]) {
  const left = [...answers];
  const prospects = vi.fn<() => Promise<Prospects | undefined>>(async () =>
    left.length > 1 ? left.shift() : left[0],
  );
  const hedge = vi.fn<() => Promise<boolean>>(NEVER);
  const beganAtMs = Date.now();
  const patience = new AttemptPatience({ limitMs, prospects, hedge });
  const gaveUpAfterMs: number[] = [];
  patience.signal.addEventListener("abort", () => {
    gaveUpAfterMs.push(Date.now() - beganAtMs);
  });
  return { patience, prospects, hedge, gaveUpAfterMs };
}

describe("AttemptPatience", () => {
  test("gives up at its limit where another replica can be asked", async () => {
    const { gaveUpAfterMs, prospects } = aPatience(400, HOPE);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([400]);
    expect(prospects).toHaveBeenCalledTimes(1);
  });

  test.each([
    ["there is no other", { ...HOPE, hasOther: false }],
    ["there is no other, though its own is silent", { hasOther: false, isSilent: true }],
    ["nobody can say", undefined],
  ])("waits on while %s, and looks again ever more rarely", async (_, answer) => {
    const { gaveUpAfterMs, prospects } = aPatience(400, answer);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([]);
    // After 0.4, 2.4, 4.8 … 38.4 s.
    expect(prospects).toHaveBeenCalledTimes(6);
  });

  test("gives up once another replica has come free", async () => {
    const { gaveUpAfterMs } = aPatience(400, { ...HOPE, hasOther: false }, HOPE);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([2_400]);
  });

  test("gives up before its limit on a replica of which nothing is heard", async () => {
    const { gaveUpAfterMs } = aPatience(Infinity, HOPE, { ...HOPE, isSilent: true });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([4_000]);
  });

  test("waits for ever beside another copy, once that is sent", async () => {
    const { gaveUpAfterMs, hedge, prospects } = aPatience(400, HOPE);
    hedge.mockResolvedValue(true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([]);
    expect(hedge).toHaveBeenCalledTimes(1);
    expect(prospects).toHaveBeenCalledTimes(1);
  });

  test.each([
    ["on a replica of which nothing is heard", { ...HOPE, isSilent: true }],
    ["while there is no other", { ...HOPE, hasOther: false }],
  ])("asks for no copy %s", async (_, answer) => {
    const { hedge } = aPatience(400, answer);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(hedge).not.toHaveBeenCalled();
  });

  test("does not give up what has begun while a copy was asked for", async () => {
    const { patience, hedge, gaveUpAfterMs } = aPatience(400, HOPE);
    hedge.mockImplementation(async () => {
      patience.end();
      return false;
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([]);
  });

  test("is not late only because it has looked", async () => {
    const { gaveUpAfterMs } = aPatience(5_000, HOPE);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaveUpAfterMs).toEqual([5_000]);
  });

  test("does not give up what has ended, not even while the pool is being asked", async () => {
    const answers: ((prospects: Prospects) => void)[] = [];
    const prospects = () => new Promise<Prospects>((resolve) => void answers.push(resolve));
    const patience = new AttemptPatience({ limitMs: 400, prospects, hedge: NEVER });
    await vi.advanceTimersByTimeAsync(400);
    patience.end();
    answers[0]?.(HOPE);
    expect(answers).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(patience.signal.aborted).toBe(false);
  });
});
