import { describe, expect, test } from "vitest";
import { CacheAware } from "../../../simulator/policies/cache-aware.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

const idle = [replica(0), replica(1), replica(2)];
const withPrefix = (key: string, tokens: number) => request({ prefixes: [{ key, tokens }] });

describe("CacheAware", () => {
  test("returns a prefix to the replica that was sent it", () => {
    const choose = chooser(new CacheAware());
    const homes = ["a", "b", "c"].map((key) => choose(idle, withPrefix(key, 500)));
    expect(new Set(homes).size).toBe(3);
    for (const [index, key] of ["a", "b", "c"].entries()) {
      expect(choose(idle, withPrefix(key, 500))).toBe(homes[index]);
    }
  });

  test("prefers the longer of two matches", () => {
    const choose = chooser(new CacheAware());
    const short = { key: "turn 1", tokens: 400 };
    const long = { key: "turn 2", tokens: 900 };
    expect(choose(idle, request({ prefixes: [short] }))).toBe(0);
    // By size of the trees: replica 0 is out of the pool while the longer one is sent.
    expect(choose(idle.slice(1), request({ prefixes: [short, long] }))).toBe(1);
    expect(choose(idle, request({ prefixes: [short, long] }))).toBe(1);
  });

  test("counts a match of too small a share for nothing, and fills the smallest tree", () => {
    const choose = chooser(new CacheAware());
    expect(choose(idle, withPrefix("a", 300))).toBe(0);
    expect(choose(idle, withPrefix("a", 300))).toBe(1);
    expect(choose(idle, withPrefix("a", 301))).toBe(0);
  });

  test("sends everything to the shortest queue while the pool is imbalanced", () => {
    const choose = chooser(new CacheAware());
    const home = choose(idle, withPrefix("a", 900));
    const loaded = (outstanding: number, least: number) =>
      idle.map(({ replicaIndex }) =>
        replica(replicaIndex, { outstanding: replicaIndex === home ? outstanding : least }),
      );
    expect(choose(loaded(64, 0), withPrefix("a", 900))).toBe(home);
    expect(choose(loaded(300, 200), withPrefix("a", 900))).toBe(home);
    expect(choose(loaded(65, 0), withPrefix("a", 900))).not.toBe(home);
  });

  test("forgets the least recently sent prefixes of a tree that is too large", () => {
    const choose = chooser(new CacheAware({ treeTokensMax: 2_500, evictionIntervalMs: 1_000 }));
    const home = [replica(0)];
    choose(home, withPrefix("old", 900));
    choose(home, withPrefix("kept", 900));
    choose(home, withPrefix("old", 900), 1);
    choose(home, withPrefix("kept", 900), 2);
    choose(home, withPrefix("new", 900), 3);
    // Of 3,200 tokens the leaves go first, and then the prefix that was sent longest ago.
    expect(choose([replica(0), replica(1)], withPrefix("old", 900), 1_000)).toBe(1);
    expect(choose([replica(0), replica(1)], withPrefix("new", 900), 1_001)).toBe(0);
  });
});
