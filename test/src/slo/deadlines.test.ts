import { describe, expect, test } from "vitest";
import { decodeLimitMs, e2eLimitMs, stallMarkMs, ttftLimitMs } from "../../../src/slo/deadlines.ts";

const p99 = (limitMs: number) => ({ percentileRatio: 0.99, limitMs });

describe("ttftLimitMs()", () => {
  test("grows with the prompt where the target says so", () => {
    const ttft = { ...p99(500), perPromptTokenMs: 0.2 };
    expect(ttftLimitMs({ ttft }, 10_000)).toBe(2500);
    expect(ttftLimitMs({ ttft: p99(500) }, 10_000)).toBe(500);
  });

  test("is infinite when nothing is promised", () => {
    expect(ttftLimitMs({ tpot: p99(50) }, 10)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("stallMarkMs()", () => {
  test("is four times the pace that is promised, or foreseen where that is slower", () => {
    expect(stallMarkMs({ tpot: p99(200) }, 50)).toBe(800);
    expect(stallMarkMs({ tpot: p99(200) }, 300)).toBe(1_200);
    expect(stallMarkMs({}, 300)).toBe(1_200);
  });

  test("is no shorter than a step with somebody else's prompt may take", () => {
    expect(stallMarkMs({ tpot: p99(25) }, 5)).toBe(500);
  });
});

describe("decodeLimitMs()", () => {
  test("grants TPOT for every gap, and a grace to answers of fewer than 16 tokens", () => {
    const tpot = p99(50);
    expect(decodeLimitMs({ tpot }, 16)).toBe(15 * 50);
    expect(decodeLimitMs({ tpot }, 15)).toBe(14 * 50 + 250);
    expect(decodeLimitMs({ tpot }, 1)).toBe(250);
    expect(decodeLimitMs({ tpot }, 0)).toBe(250);
  });

  test("is infinite when nothing is promised", () => {
    expect(decodeLimitMs({ ttft: p99(500) }, 100)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("e2eLimitMs()", () => {
  test("is the E2E target where there is one, whatever the others imply", () => {
    expect(e2eLimitMs({ ttft: p99(500), tpot: p99(50), e2e: p99(8000) }, 10, 1000)).toBe(8000);
  });

  test("is otherwise TTFT and TPOT times the gaps", () => {
    const ttft = { ...p99(500), perPromptTokenMs: 1 };
    expect(e2eLimitMs({ ttft, tpot: p99(50) }, 100, 21)).toBe(500 + 100 + 20 * 50);
    expect(e2eLimitMs({ ttft, tpot: p99(50) }, 0, 0)).toBe(500);
  });

  test("is infinite unless both of them are promised", () => {
    expect(e2eLimitMs({ ttft: p99(500) }, 10, 10)).toBe(Number.POSITIVE_INFINITY);
    expect(e2eLimitMs({ tpot: p99(50) }, 10, 10)).toBe(Number.POSITIVE_INFINITY);
  });
});
