import { describe, expect, test } from "vitest";
import { hashText } from "../../../src/base/hash.ts";
import { rendezvousWeight } from "../../../src/routing/rendezvous.ts";

const ROUTES = Array.from({ length: 4_000 }, (_, i) => hashText(`tenant/route-${i}`));
const replicasOf = (count: number) =>
  Array.from({ length: count }, (_, i) => hashText(`http://replica-${i}:8000`));

function favourite(route: number, replicas: readonly number[]): number {
  const weights = replicas.map((replica) => rendezvousWeight(route, replica));
  return replicas[weights.indexOf(Math.max(...weights))] ?? -1;
}

describe("rendezvousWeight", () => {
  test("spreads routes evenly over replicas with like names", () => {
    const replicas = replicasOf(8);
    const counts = new Map<number, number>();
    for (const route of ROUTES) {
      const replica = favourite(route, replicas);
      counts.set(replica, (counts.get(replica) ?? 0) + 1);
    }
    // 500 are expected, with a standard deviation of 21.
    for (const replica of replicas) {
      expect(counts.get(replica)).toBeGreaterThan(500 - 90);
      expect(counts.get(replica)).toBeLessThan(500 + 90);
    }
  });

  test("moves only the routes of a replica that goes", () => {
    const before = replicasOf(8);
    const [gone, ...left] = before;
    const moved = ROUTES.filter((route) => favourite(route, left) !== favourite(route, before));
    expect(moved.every((route) => favourite(route, before) === gone)).toBe(true);
    expect(moved.length).toBeGreaterThan(0);
  });

  test("spreads the routes of a replica that goes over all the others", () => {
    const [gone, ...left] = replicasOf(8);
    const moved = ROUTES.filter((route) => favourite(route, [gone ?? 0, ...left]) === gone);
    const counts = left.map(
      (replica) => moved.filter((route) => favourite(route, left) === replica).length,
    );
    // Of 500 about 71 each, with a standard deviation of 8.
    expect(Math.min(...counts)).toBeGreaterThan(35);
    expect(Math.max(...counts)).toBeLessThan(115);
  });

  test("is the same for the same names, and lies in 32 bits", () => {
    for (const route of ROUTES.slice(0, 100)) {
      const weight = rendezvousWeight(route, hashText("a"));
      expect(weight).toBe(rendezvousWeight(route, hashText("a")));
      expect(Number.isInteger(weight) && weight >= 0 && weight < 2 ** 32).toBe(true);
    }
  });
});
