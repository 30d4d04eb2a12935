import { describe, expect, test } from "vitest";
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

  test("waits until its token is due where nobody knows what computing takes", () => {
    expect(peerWaitMs({ ...RUN, computeMs: undefined }, Infinity)).toBe(2_000);
    expect(peerWaitMs({ ...RUN, computeMs: undefined }, 150)).toBe(150);
  });
});
