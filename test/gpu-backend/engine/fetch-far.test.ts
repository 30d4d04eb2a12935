import { describe, expect, test } from "vitest";
import { TierChoice } from "../../../gpu-backend/engine/kv-cache/kv-tier.ts";
import { StepModel } from "../../../src/step-cost/step-model.ts";
import { ForgetfulTier } from "../../support/forgetful-tier.ts";
import { peerWaitMs } from "../../../gpu-backend/engine/fetch-far.ts";

const RUN = { loadMs: 10, computeMs: 300 };

describe("who waits for a peer", () => {
  test("waits as long as computing would take, and no longer", () => {
    expect(peerWaitMs(RUN, Infinity)).toBe(300);
    expect(peerWaitMs({ ...RUN, computeMs: 60_000 }, Infinity)).toBe(2_000);
    expect(peerWaitMs({ ...RUN, loadMs: 1, computeMs: 4 }, Infinity)).toBe(20);
  });

  test("has computed it in time if nothing comes", () => {
    expect(peerWaitMs(RUN, 400)).toBe(100);
  });

  test("waits for a load alone where computing would be too late anyway", () => {
    expect(peerWaitMs(RUN, 200)).toBe(20);
    expect(peerWaitMs(RUN, -5)).toBe(20);
  });

  test("waits for as long as computing would cost all who decode beside it", () => {
    expect(peerWaitMs({ ...RUN, worthMs: 1_200 }, Infinity)).toBe(1_200);
    expect(peerWaitMs({ ...RUN, worthMs: 1_200 }, 400)).toBe(100);
  });

  test("waits until its token is due where nobody knows what computing takes", () => {
    expect(peerWaitMs({ ...RUN, computeMs: undefined }, Infinity)).toBe(2_000);
    expect(peerWaitMs({ ...RUN, computeMs: undefined }, 150)).toBe(150);
  });
});

describe("a fetch", () => {
  const forecast = new StepModel({
    fixedMs: 1,
    tokenMs: 0.1,
    attendedPairMs: 0,
    sequenceMs: 0,
    kvTokenMs: 0,
  });
  const run = { startBlock: 0, blocks: { near: 0, far: 0, peer: 10 } };

  /** For 160 tokens, which take 16 ms to compute. */
  function worthOf(loadMs: number, prefillCostRatio?: number) {
    const tier = new ForgetfulTier(
      () => 0,
      () => 0,
    );
    tier.predictMs = () => loadMs;
    const ratio = prefillCostRatio === undefined ? {} : { prefillCostRatio };
    return new TierChoice(tier, { forecast, blockTokens: 16, ...ratio }).worthFetching(run);
  }

  test("pays where it takes less than to compute, and where all decode four times as long", () => {
    expect(worthOf(15)).toEqual({ loadMs: 15, computeMs: 16, worthMs: 16 });
    expect(worthOf(17)).toBeUndefined();
    expect(worthOf(60, 4)).toEqual({ loadMs: 60, computeMs: 16, worthMs: 64 });
    expect(worthOf(65, 4)).toBeUndefined();
  });
});
