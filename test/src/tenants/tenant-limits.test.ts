import { describe, expect, test } from "vitest";
import { RequestId } from "../../../src/protocol/ids.ts";
import { HOLD_MS_MAX } from "../../../src/slo/answer-span.ts";
import type { RequestPricing } from "../../../src/tenants/model-price.ts";
import type { LimitsMax } from "../../../src/tenants/tenant-limits.ts";
import { TenantLimits } from "../../../src/tenants/tenant-limits.ts";
import { ROW_SILENCE_MS_MAX } from "../../../src/tenants/usage-ledger.ts";

const BOTH = { concurrencyMax: 2, requestsPerMinuteMax: 3, tokensPerMinuteMax: 100 };

/** A token of output costs the smallest amount that a limit can name, one of the prompt a tenth of it. */
const priceOf = (outputPicosPerToken: number) => ({
  inputPicosPerToken: outputPicosPerToken / 10,
  cachedInputPicosPerToken: outputPicosPerToken / 10,
  outputPicosPerToken,
});

interface Wish extends LimitsMax {
  readonly tokens?: number;
  readonly pricing?: RequestPricing;
}

function ask(limits: TenantLimits, name: string, wish: Wish, nowMs = 0) {
  const { tokens: tokensMax = 10, pricing, ...limitsMax } = wish;
  const row = {
    requestId: RequestId.parse(name),
    keyName: "key",
    modelId: "m",
    beganAtMs: nowMs + 1,
    promptTokens: 3,
    tokensMax,
    ...(pricing !== undefined && { pricing }),
  };
  const verdict = limits.acquire({ row, limitsMax }, nowMs);
  limits.checkInvariants();
  return verdict;
}

function take(limits: TenantLimits, name: string, wish: Wish) {
  const verdict = ask(limits, name, wish);
  if (verdict.kind !== "granted") throw new Error(`${name} was refused`);
  return verdict.hold;
}

/** What is left after a request that is refused whatever is free, and so takes nothing. */
function left(limits: TenantLimits, nowMs = 0) {
  const { standings } = ask(limits, "probe", { ...BOTH, tokens: 101 }, nowMs);
  return [standings.requests?.remaining, standings.tokens?.remaining];
}

/** A request of a tenant that may spend 100 millionths, which may have so much output at that price. */
const costing = (outputTokensMax: number, micros = 1) => ({
  spendPerMonthMaxMicros: 100,
  pricing: { price: priceOf(micros * 1_000_000), outputTokensMax },
});

describe("TenantLimits", () => {
  test("a request that finds no permit reserves nothing", () => {
    const limits = new TenantLimits();
    take(limits, "a", BOTH);
    take(limits, "b", BOTH);
    expect(ask(limits, "c", BOTH)).toMatchObject({ kind: "rejected", limit: "concurrency" });
    expect(left(limits)).toEqual([1, 80]);
  });

  test("a request that its rate refuses takes no permit", () => {
    const limits = new TenantLimits();
    take(limits, "a", BOTH);
    const refused = ask(limits, "b", { ...BOTH, tokens: 95 });
    expect(refused).toMatchObject({ kind: "rejected", limit: "tokens", retryAfterMs: 60_500 });
    expect(ask(limits, "c", BOTH).kind).toBe("granted");
  });

  test("a month takes what fits it with all that is under way, to the token", () => {
    const limits = new TenantLimits();
    const month = { tokensPerMonthMax: 100 };
    take(limits, "a", { ...month, tokens: 60 });
    expect(ask(limits, "b", { ...month, tokens: 41 })).toMatchObject({
      kind: "rejected",
      limit: "month",
      retryAfterMs: Infinity,
    });
    const used = take(limits, "c", { ...month, tokens: 40 });
    const ending = { kind: "counted", promptTokens: 3, outputTokens: 20, cachedTokens: 0 } as const;
    limits.release(used, ending, 0);
    expect(ask(limits, "d", { ...month, tokens: 18 }).kind).toBe("rejected");
    expect(ask(limits, "e", { ...month, tokens: 17 }).kind).toBe("granted");
  });

  test("a month's spend takes what fits it with all that is under way, to the last fraction", () => {
    const limits = new TenantLimits();
    // Its prompt of 3 tokens costs 0.3.
    const used = take(limits, "a", costing(60));
    expect(ask(limits, "b", costing(40))).toMatchObject({
      kind: "rejected",
      limit: "spend",
      retryAfterMs: Infinity,
    });
    take(limits, "c", costing(39));
    const ending = { kind: "counted", promptTokens: 3, outputTokens: 20, cachedTokens: 0 } as const;
    limits.release(used, ending, 0);
    expect(limits.ledger.monthStanding(0)).toMatchObject({
      spentPicos: 20_300_000n,
      reservedPicos: 39_300_000n,
    });
    // A price that was changed meanwhile is that of requests that begin after it.
    expect(ask(limits, "d", costing(21, 2)).kind).toBe("rejected");
    expect(ask(limits, "e", costing(19, 2)).kind).toBe("granted");
    // 98.2 are taken.
    const exactly = {
      price: { ...priceOf(100_000), inputPicosPerToken: 0, cachedInputPicosPerToken: 0 },
      outputTokensMax: 8,
    };
    expect(ask(limits, "just", { pricing: exactly, spendPerMonthMaxMicros: 99 }).kind).toBe(
      "granted",
    );
    expect(ask(limits, "f", costing(2)).kind).toBe("rejected");
    expect(ask(limits, "free", { spendPerMonthMaxMicros: 100 }).kind).toBe("granted");
    expect(ask(limits, "unlimited", { pricing: costing(1000).pricing }).kind).toBe("granted");
  });

  test("a granted request is told what is left with itself counted", () => {
    expect(ask(new TenantLimits(), "a", BOTH).standings).toMatchObject({
      requests: { limit: 3, remaining: 2 },
      tokens: { limit: 100, remaining: 90 },
    });
  });

  test("asking again for the same request reserves nothing more, and settles nothing", () => {
    const limits = new TenantLimits();
    const first = take(limits, "a", BOTH);
    const second = take(limits, "a", BOTH);
    expect(left(limits)).toEqual([2, 90]);
    limits.release(second, { kind: "refunded" }, 0);
    expect(left(limits)).toEqual([2, 90]);
    limits.release(
      first,
      { kind: "counted", promptTokens: 3, outputTokens: 1, cachedTokens: 0 },
      0,
    );
    expect(left(limits)).toEqual([2, 96]);
  });

  test("asking again for the same request needs no room, since it has its own", () => {
    const limits = new TenantLimits();
    take(limits, "a", { ...BOTH, tokens: 100 });
    expect(ask(limits, "a", { ...BOTH, tokens: 100 }).kind).toBe("granted");
    expect(ask(limits, "b", BOTH)).toMatchObject({ kind: "rejected", limit: "tokens" });
  });

  test("a hold that says nothing of its use gives its place back and stays reserved", () => {
    const limits = new TenantLimits();
    const hold = take(limits, "a", { ...BOTH, concurrencyMax: 1 });
    limits.release(hold, undefined, 0);
    expect(left(limits)).toEqual([2, 90]);
    expect(ask(limits, "b", { ...BOTH, concurrencyMax: 1 }).kind).toBe("granted");
  });

  test("when a hold expires nothing of it is left", () => {
    const limits = new TenantLimits();
    take(limits, "a", { ...BOTH, concurrencyMax: 1 });
    expect(left(limits, HOLD_MS_MAX)).toEqual([3, 100]);
    expect(ask(limits, "b", { ...BOTH, concurrencyMax: 1 }, HOLD_MS_MAX).kind).toBe("granted");
  });

  test("without a limit on them any number may run at once", () => {
    const limits = new TenantLimits();
    const verdicts = Array.from({ length: 500 }, (_, index) => ask(limits, `r${index}`, {}).kind);
    expect(new Set(verdicts)).toEqual(new Set(["granted"]));
  });
});

/** Begins with the rows that the life before has left open. */
function nextLife({ ledger }: TenantLimits): TenantLimits {
  return new TenantLimits(undefined, ledger);
}

describe("the next life of a tenant's object", () => {
  const ONE = { concurrencyMax: 1 };

  test("counts what runs since the one before, until its row is settled", () => {
    const before = new TenantLimits();
    const { row } = take(before, "a", ONE);
    const limits = nextLife(before);
    expect(ask(limits, "b", ONE)).toMatchObject({ kind: "rejected", limit: "concurrency" });
    expect(limits.taken(0).concurrency).toBe(1);
    limits.ledger.settle(row, { kind: "refunded" }, 1);
    expect(ask(limits, "b", ONE, 1).kind).toBe("granted");
    expect(limits.taken(1).concurrency).toBe(1);
  });

  test("or nobody has spoken of it for too long", () => {
    const before = new TenantLimits();
    const { row } = take(before, "a", ONE);
    // As what is read from disk is taken to be.
    before.ledger.letGo(row.requestId, 0);
    const silent = nextLife(before);
    expect(ask(silent, "b", ONE, 11_999).kind).toBe("rejected");
    expect(silent.taken(12_000).concurrency).toBe(0);
    const heard = nextLife(before);
    heard.ledger.checkpoint(row.requestId, 5, 10_000);
    expect(ask(heard, "b", ONE, 12_000).kind).toBe("rejected");
    heard.ledger.sweep(10_000 + ROW_SILENCE_MS_MAX);
    expect(ask(heard, "b", ONE, 10_000 + ROW_SILENCE_MS_MAX).kind).toBe("granted");
  });

  test("counts a request once that asks it again", () => {
    const before = new TenantLimits();
    take(before, "a", ONE);
    const limits = nextLife(before);
    expect(ask(limits, "a", { concurrencyMax: 2 }).kind).toBe("granted");
    expect(limits.taken(0).concurrency).toBe(1);
  });
});
