import { describe, expect, test } from "vitest";
import { DEFAULT_SHARE, shareOf } from "../../../src/tenants/share.ts";

describe("shareOf()", () => {
  const share = { weight: 4, guaranteedRatio: 0.2, band: 1 };

  test("finds the share of the pool that is asked for", () => {
    const shares = [
      { poolId: "other", ...DEFAULT_SHARE },
      { poolId: "gpus", ...share },
    ];
    expect(shareOf({ shares }, "gpus")).toEqual(share);
  });

  test("is the default one where nothing is said of the pool", () => {
    expect(shareOf({ shares: [{ poolId: "other", ...share }] }, "gpus")).toEqual(DEFAULT_SHARE);
  });
});
