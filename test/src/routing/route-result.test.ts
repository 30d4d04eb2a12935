import { expect, test } from "vitest";
import { hashText } from "../../../src/base/hash.ts";
import { rendezvousWeight } from "../../../src/routing/rendezvous.ts";
import { routeResult } from "../../../src/routing/route-result.ts";

const routeHash = hashText("route");
const [first, second, third] = ["a", "b", "c"]
  .map((name) => ({ hash: hashText(name), isRemoved: false }))
  .toSorted((one, other) => weightOf(other) - weightOf(one));
if (first === undefined || second === undefined || third === undefined) throw new Error("three");

function weightOf({ hash }: { readonly hash: number }): number {
  return rendezvousWeight(routeHash, hash);
}

const ROUTED = { isRetry: false, cachedTokens: 0, routeHash, replicas: [third, first, second] };

test("the replica that the route prefers is its primary, any other a spill", () => {
  expect(routeResult({ ...ROUTED, chosen: first })).toBe("primary");
  expect(routeResult({ ...ROUTED, chosen: second })).toBe("spill");
});

test("one that has left the configuration is nobody's primary", () => {
  const replicas = [{ ...first, isRemoved: true }, second, third];
  expect(routeResult({ ...ROUTED, replicas, chosen: second })).toBe("primary");
});

test("a cached prefix says more than that, and a failure before more than either", () => {
  const cached = { ...ROUTED, cachedTokens: 16, chosen: second };
  expect(routeResult(cached)).toBe("prefix");
  expect(routeResult({ ...cached, isRetry: true })).toBe("failover");
});
