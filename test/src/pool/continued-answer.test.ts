import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { HistogramState } from "../../../src/base/histogram.ts";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { capacityOf } from "../../../src/pool/capacity.ts";
import { chargedWork, costMsOf, toPoolRequest } from "../../../src/pool/intake.ts";
import type { ContinuedAnswer, Offer, Outcome } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import type { LeaseId } from "../../../src/protocol/ids.ts";
import { PoolId } from "../../../src/protocol/ids.ts";
import {
  anOffer,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aReplica, replicaIdOf } from "../../support/replica-builders.ts";
import { leaseOf } from "./full-pool.ts";

const CAPACITY = capacityOf([aReplica().loadAt(0)]);
const KEY = { tenantId: "tenant-a", modelId: "sluice-tiny" };
const GOOD = { kind: "good", missed: [], isDegraded: false } as const;
/** Its answer has run for 20 s, far beyond its first token's target, and has to go on within two. */
const CONTINUED: ContinuedAnswer = { promptTokens: 100, emittedTokens: 40, resumeByMs: 22_000 };
const GOES_ON: Partial<Offer> = {
  isRetry: true,
  elapsedMs: 20_000,
  outputTokensMax: 100,
  continued: CONTINUED,
};

const someParts = () => ({
  tokenEstimate: new TokenEstimate(),
  outputLengths: new OutputLengths(),
  firstTokenMsMax: 60_000,
});

/** A pool that has sent an answer to replica 0 or 1 and is asked to go on with it on the other one. */
function anInterrupted(change: Partial<Offer> = {}) {
  const pool = aReadyPool({ replicaCount: 2 });
  const [sent] = only("dispatch", pool.offer(anOffer("a", { outputTokensMax: 100, ...change }), 0));
  if (sent === undefined) throw new Error("An idle pool sends a request at once");
  pool.started(sent.leaseId, 50, 50);
  const part: Outcome = {
    kind: "upstream-failed",
    isInterrupted: true,
    promptTokens: 100,
    cachedTokens: 0,
    outputTokens: 40,
  };
  pool.settle(sent.leaseId, part, 60);
  const excludedReplicaIds = [sent.dispatch.replicaId];
  const goOn = (more: Partial<Offer> = {}) => {
    const offer = anOffer("a", { ...GOES_ON, ...change, excludedReplicaIds, ...more });
    const effects = pool.offer(offer, 60);
    pool.checkInvariants();
    return effects;
  };
  return { pool, goOn, failed: sent.dispatch.replicaId };
}

const leaseIn = (pool: Pool, leaseId: LeaseId) => {
  const lease = pool.state.leases.get(leaseId);
  if (lease === undefined) throw new Error("The lease is alive");
  return lease;
};

const countOf = ({ counts }: HistogramState) => counts.reduce((sum, count) => sum + count, 0);

describe("an offer to go on with an answer", () => {
  test("is sent elsewhere, although its first token was due long ago", () => {
    const { goOn, failed } = anInterrupted();
    const [sent] = only("dispatch", goOn());
    expect(sent?.dispatch.replicaId).not.toBe(failed);
    expect(sent?.dispatch.firstTokenBudgetMs).toBe(2_000);
  });

  test("is refused at once where nobody could go on in time", () => {
    const { pool, goOn } = anInterrupted();
    const late = { ...CONTINUED, resumeByMs: 20_001 };
    expect(only("reject", goOn({ continued: late }))).toHaveLength(1);
    expect(pool.state.totals.continuations).toMatchObject({ refused: 1, completed: 0 });
    // It was admitted, and did not get what it was promised.
    expect(pool.status(100).tenants).toMatchObject([{ counts: { offered: 1, missed: 1 } }]);
  });

  test("is refused at once where there is no other replica", () => {
    const { goOn } = anInterrupted();
    const excludedReplicaIds = [replicaIdOf(0), replicaIdOf(1)];
    const [refused] = only("reject", goOn({ excludedReplicaIds }));
    expect(refused?.rejection.reason).toBe("no-replica");
  });

  test("counts as withdrawn when its client has left", () => {
    const pool = aReadyPool({ hello: { sequencesMax: 1, queueMax: 0 } });
    leaseOf(pool.offer(anOffer("other"), 0));
    expect(pool.offer(anOffer("a", GOES_ON), 0)).toMatchObject([{ kind: "wake" }]);
    pool.withdraw(anOffer("a").requestId, 1);
    expect(pool.state.totals.continuations).toMatchObject({ withdrawn: 1 });
  });

  test("has what there is to be prefilled, exactly, and what is left to be expected", () => {
    const parts = someParts();
    for (let index = 0; index < 200; index += 1) {
      parts.outputLengths.learn(KEY, 60, index, { isCensored: false });
    }
    const request = toPoolRequest(
      anOffer("a", { ...GOES_ON, promptBytes: 9_999 }),
      parts,
      CAPACITY,
      200,
    );
    expect([request.promptTokens, request.promptTokensMin]).toEqual([140, 140]);
    expect(request.outputTokens).toBeGreaterThan(5);
    expect(request.outputTokens).toBeLessThan(40);
    expect(request.outputTokensHigh).toBeLessThanOrEqual(60);
  });

  test("has its gap and its pace to keep, and no end", () => {
    const targets = {
      ...firstTokenWithin(500),
      tpot: { percentileRatio: 0.99, limitMs: 40 },
      e2e: { percentileRatio: 0.99, limitMs: 1_000 },
      tbtMaxMs: 200,
    };
    const offer = anOffer("a", { ...GOES_ON, targets });
    expect(toPoolRequest(offer, someParts(), CAPACITY, 0).limits).toEqual({
      ttftLimitMs: 22_000,
      tpotLimitMs: 40,
      tbtMaxMs: 200,
      e2eLimitMs: Infinity,
    });
  });

  test("is never displaced: its client has begun to read", () => {
    const { pool, goOn } = anInterrupted({ share: NO_GUARANTEE });
    const leaseId = leaseOf(goOn());
    const { isInProfile } = leaseIn(pool, leaseId).account;
    expect([isInProfile, pool.state.displacement.unstarted.size]).toEqual([false, 0]);
  });

  test("is not hedged", () => {
    const { pool, goOn } = anInterrupted();
    const leaseId = leaseOf(goOn());
    const hedges = pool.hedge(leaseId, anOffer("a", GOES_ON), 500);
    expect(only("hedge", hedges)).toEqual([]);
    pool.checkInvariants();
  });

  test("leaves room for what of the limit is left", () => {
    const { pool, goOn } = anInterrupted();
    const lease = leaseIn(pool, leaseOf(goOn()));
    expect([lease.promptTokens, lease.emittedTokens, lease.outputTokensMax]).toEqual([140, 40, 60]);
  });
});

const costOf = (request: { promptTokens: number; emittedTokens: number }, output: number) =>
  costMsOf(chargedWork(request, output), CAPACITY);

describe("the parts of an answer", () => {
  test("cost its tenant together what the whole would have cost", () => {
    const tokens = fc.integer({ min: 1, max: 2_000 });
    fc.assert(
      fc.property(tokens, tokens, tokens, (promptTokens, emitted, rest) => {
        const whole = costOf({ promptTokens, emittedTokens: 0 }, emitted + rest);
        const first = costOf({ promptTokens, emittedTokens: 0 }, emitted);
        const continued = { promptTokens: promptTokens + emitted, emittedTokens: emitted };
        const second = costOf(continued, rest);
        // Of what is prefilled again the last token, which no engine ever finds cached.
        const oneToken = costOf(continued, 0);
        expect(first + second - oneToken).toBeCloseTo(whole, 1);
      }),
    );
  });

  test("teach one length, that of all of them", () => {
    const { pool, goOn } = anInterrupted();
    expect(pool.state.outputLengths.byModel.size).toBe(0);
    const leaseId = leaseOf(goOn());
    pool.started(leaseId, 30, 90);
    pool.settle(leaseId, { kind: "completed", outputTokens: 25, attainment: GOOD }, 900);
    const [model] = pool.state.outputLengths.byModel.values();
    expect(model?.all.weight).toBe(1);
    // 65 tokens, and not the 25 that the second replica made.
    const curve = new OutputLengths({}, pool.state.outputLengths).curveOf(KEY);
    const untaught = new OutputLengths().curveOf(KEY);
    expect(curve.survival(40)).toBeGreaterThan(untaught.survival(40));
    expect(curve.survival(80)).toBeLessThan(untaught.survival(80));
  });

  test("are one request of their tenant's, and one first token", () => {
    const { pool, goOn } = anInterrupted();
    const leaseId = leaseOf(goOn());
    pool.started(leaseId, 30, 90);
    pool.settle(leaseId, { kind: "completed", outputTokens: 25, attainment: GOOD }, 900);
    const counts = { offered: 1, admitted: 1, good: 1, missed: 0 };
    expect(pool.status(1_000).tenants).toMatchObject([{ counts }]);
    const { totals } = pool.state;
    expect(totals.tokens).toEqual({ input: 100, cachedInput: 0, output: 65, reasoning: 0 });
    const [served] = totals.served.values();
    if (served === undefined) throw new Error("The answer was told of");
    expect(countOf(served.firstToken)).toBe(1);
    expect(countOf(totals.actualFirstToken)).toBe(2);
    expect(countOf(served.tokenGap)).toBe(0);
    // From its arrival on.
    expect(served.request.sum).toBeCloseTo(20.84, 2);
  });

  test.each([
    ["completed", { kind: "completed" }],
    ["failed", { kind: "upstream-failed" }],
    ["failed", { kind: "abandoned" }],
    ["client-gone", { kind: "client-gone" }],
  ] as const)("that end in %s are told so", (result, outcome) => {
    const { pool, goOn } = anInterrupted();
    pool.settle(leaseOf(goOn()), outcome, 900);
    const none = { completed: 0, failed: 0, "client-gone": 0, refused: 0, withdrawn: 0 };
    expect(pool.state.totals.continuations).toEqual({ ...none, [result]: 1 });
    const family = pool
      .metrics(PoolId.parse("local"), 1_000)
      .find(({ name }) => name === "gw_continuations_total");
    const label = result.replace("client-gone", "client_abort");
    expect(family?.lines).toContain(`pool="local",result="${label}"} 1\n`);
  });

  test("go on being charged by what they become, and not for what is prefilled again", () => {
    const { pool, goOn } = anInterrupted({ outputTokensMax: 2_000 });
    const leaseId = leaseOf(goOn({ outputTokensMax: 2_000 }));
    pool.started(leaseId, 30, 90);
    const lease = leaseIn(pool, leaseId);
    const before = lease.chargedMs;
    pool.wake(100);
    expect(lease.chargedMs).toBeLessThan(before * 1.1);
  });
});
