import { describe, expect, test } from "vitest";
import { RateBucket } from "../../../simulator/policies/rate-bucket.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

describe("RateBucket", () => {
  const requestsPerMs = new Map([
    ["a", 0.01],
    ["b", 0.02],
  ]);

  test("admits a burst of ten seconds, then the rate", () => {
    const choose = chooser(new RateBucket({ requestsPerMs }));
    const asked = request({ tenantId: "a" });
    const ask = (nowMs: number) => choose([replica(0)], asked, nowMs) !== undefined;
    const burst = Array.from({ length: 200 }, () => ask(0));
    expect(burst.filter(Boolean)).toHaveLength(100);
    const steady = Array.from({ length: 10_000 }, (_, ms) => ask(ms + 1));
    expect(steady.filter(Boolean)).toHaveLength(100);
  });

  test("keeps tenants apart, and rejects one without a rate", () => {
    const choose = chooser(new RateBucket({ requestsPerMs }));
    for (let i = 0; i < 100; i++) choose([replica(0)], request({ tenantId: "a" }));
    expect(choose([replica(0)], request({ tenantId: "a" }))).toBeUndefined();
    expect(choose([replica(0)], request({ tenantId: "b" }))).toBe(0);
    expect(choose([replica(0)], request({ tenantId: "c" }))).toBeUndefined();
  });

  test("charges nothing while no replica is up", () => {
    const choose = chooser(new RateBucket({ requestsPerMs: new Map([["a", 1e-9]]) }));
    expect(choose([], request({ tenantId: "a" }))).toBeUndefined();
    expect(choose([replica(0)], request({ tenantId: "a" }))).toBe(0);
  });
});
