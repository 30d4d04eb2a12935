import { describe, expect, test } from "vitest";
import { SaturationShed } from "../../../simulator/policies/saturation-shed.ts";
import { chooser, replica } from "./policy-fixtures.ts";

describe("SaturationShed", () => {
  test("rejects when queues and KV, of each the worse, are used up on average", () => {
    const choose = chooser(new SaturationShed());
    const byQueue = replica(0, { outstanding: 5, queuedRequests: 5 });
    const byKv = replica(1, { usedKvRatio: 0.8 });
    expect(choose([byQueue, byKv])).toBeUndefined();
    expect(choose([byQueue, replica(1, { usedKvRatio: 0.79 })])).toBe(1);
  });

  test("goes round a replica beyond its thresholds even if it has the fewest outstanding", () => {
    const choose = chooser(new SaturationShed());
    const full = replica(0, { outstanding: 1, runningRequests: 1, usedKvRatio: 0.9 });
    expect(choose([full, replica(1, { outstanding: 9, runningRequests: 9 })])).toBe(1);
  });

  test("counts what it sent since the last scrape as waiting", () => {
    const choose = chooser(new SaturationShed());
    const sent = { outstanding: 15, runningRequests: 10 };
    expect(choose([replica(0, sent)])).toBeUndefined();
    expect(choose([replica(0, { ...sent, runningRequests: 11 })])).toBe(0);
  });
});
