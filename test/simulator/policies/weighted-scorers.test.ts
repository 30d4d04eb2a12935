import { describe, expect, test } from "vitest";
import { WeightedScorers } from "../../../simulator/policies/weighted-scorers.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

const idle = [replica(0), replica(1)];
const prefixes = Array.from({ length: 4 }, (_, block) => ({
  key: `k${block}`,
  tokens: 128 * (block + 1),
}));

describe("WeightedScorers", () => {
  test("returns a prefix to the replica that was sent it", () => {
    const choose = chooser(new WeightedScorers());
    const home = choose(idle, request({ prefixes }));
    const homes = Array.from({ length: 20 }, () => choose(idle, request({ prefixes })));
    expect(new Set(homes)).toEqual(new Set([home]));
  });

  test("counts blocks from the first one on: what follows another beginning is no match", () => {
    const choose = chooser(new WeightedScorers({ prefix: 1, queue: 0, kvUsage: 0 }));
    choose(idle, request({ prefixes }));
    const other = [{ key: "other", tokens: 128 }, ...prefixes.slice(1)];
    const chosen = Array.from({ length: 30 }, (_, number) =>
      choose(idle, request({ prefixes: [{ key: `x${number}`, tokens: 128 }, ...other.slice(1)] })),
    );
    expect(new Set(chosen)).toEqual(new Set([0, 1]));
  });

  test("weighs a prefix against a queue and against memory that is full", () => {
    const choose = chooser(new WeightedScorers());
    const home = choose(idle, request({ prefixes })) ?? 0;
    const busy = { queuedRequests: 9, usedKvRatio: 0.9 };
    const queued = idle.map(({ replicaIndex }) =>
      replica(replicaIndex, replicaIndex === home ? busy : {}),
    );
    // 3 × 1 + 2 × 0 + 2 × 0.1 against 2 × 1 + 2 × 1.
    expect(choose(queued, request({ prefixes }))).toBe(1 - home);
    const onlyQueued = idle.map(({ replicaIndex }) =>
      replica(replicaIndex, replicaIndex === home ? { queuedRequests: 9 } : { usedKvRatio: 0.6 }),
    );
    const again = chooser(new WeightedScorers());
    const first = again(onlyQueued.slice(home, home + 1), request({ prefixes }));
    // 3 + 0 + 2 against 0 + 2 + 0.8.
    expect([first, again(onlyQueued, request({ prefixes }))]).toEqual([home, home]);
  });
});
