import { describe, expect, test } from "vitest";
import { AimdLimit } from "../../../simulator/policies/aimd-limit.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

describe("AimdLimit", () => {
  test("rises by one with each good ending while it is at least half used", () => {
    const policy = new AimdLimit({ initialLimit: 10 });
    const choose = chooser(policy);
    const asked = Array.from({ length: 10 }, () => request());
    for (const one of asked) expect(choose([replica(0)], one)).toBe(0);
    expect(choose([replica(0)])).toBeUndefined();
    for (const one of asked) policy.ended(one, { isGood: true });
    // The first four began while less than half of the limit was used.
    expect(policy.limit).toBe(16);
  });

  test("falls by a tenth with each bad ending, and never to nothing", () => {
    const policy = new AimdLimit({ initialLimit: 100 });
    const choose = chooser(policy);
    const failed = () => {
      const asked = request();
      choose([replica(0)], asked);
      policy.ended(asked, { isGood: false });
      return policy.limit;
    };
    expect([failed(), failed(), failed()]).toEqual([90, 81, 72]);
    for (let i = 0; i < 100; i++) failed();
    expect(policy.limit).toBe(1);
    expect(choose([replica(0)])).toBe(0);
  });

  test("takes no notice of requests that it did not dispatch", () => {
    const policy = new AimdLimit({ initialLimit: 10 });
    expect(chooser(policy)([])).toBeUndefined();
    policy.ended(request(), { isGood: false });
    expect(policy.limit).toBe(10);
  });
});
