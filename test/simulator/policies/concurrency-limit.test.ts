import { describe, expect, test } from "vitest";
import { ConcurrencyLimit } from "../../../simulator/policies/concurrency-limit.ts";
import { chooser, replica } from "./policy-fixtures.ts";

describe("ConcurrencyLimit", () => {
  test("rejects once every replica has as many as it may", () => {
    const choose = chooser(new ConcurrencyLimit({ outstandingMax: 8 }));
    const full = replica(0, { outstanding: 8 });
    expect(choose([full, replica(1, { outstanding: 7 })])).toBe(1);
    expect(choose([full, replica(1, { outstanding: 8 })])).toBeUndefined();
  });
});
