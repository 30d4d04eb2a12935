import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SloTargets } from "../../../src/slo/targets.ts";
import { BUILT_IN_CLASSES } from "../../../src/slo/targets.ts";
import type { AskedPromise } from "../../../src/tenants/asked-promise.ts";
import { givePromise } from "../../../src/tenants/asked-promise.ts";

const targetsOf = (className: string): SloTargets => BUILT_IN_CLASSES[className] ?? {};
const classOf = (className: string) => ({ className, targets: targetsOf(className) });
const TENANT = { ...classOf("chat"), classes: [classOf("interactive"), classOf("bulk")] };

function given(asked: AskedPromise, tenant: Parameters<typeof givePromise>[0] = TENANT) {
  const verdict = givePromise(tenant, asked);
  return verdict.kind === "given" ? verdict.promise : verdict;
}

describe("givePromise()", () => {
  test.each([
    [undefined, "chat", "default"],
    ["auto", "chat", "default"],
    ["default", "chat", "default"],
    ["scale", "chat", "default"],
    ["priority", "interactive", "priority"],
    ["fast", "interactive", "priority"],
    ["flex", "bulk", "flex"],
  ] as const)(
    "takes the tier %s for the class %s and tells the tier %s",
    (serviceTier, className, told) => {
      const asked = serviceTier === undefined ? {} : { serviceTier };
      const targets = targetsOf(className);
      expect(given(asked)).toEqual({ className, promised: targets, targets, serviceTier: told });
    },
  );

  test("lets a class outrank a tier, and tells the tier that was used", () => {
    expect(given({ className: "bulk", serviceTier: "priority" })).toMatchObject({
      className: "bulk",
      serviceTier: "default",
    });
    expect(given({ className: "interactive", serviceTier: "fast" })).toMatchObject({
      className: "interactive",
      serviceTier: "priority",
    });
  });

  test("names the classes that the tenant has where it has not the one asked for", () => {
    expect(given({ className: "intractive" })).toEqual({
      kind: "not-allowed",
      by: "class",
      found: "intractive",
      allowed: ["chat", "interactive", "bulk"],
      closest: "interactive",
    });
    expect(given({ serviceTier: "flex" }, classOf("chat"))).toMatchObject({
      kind: "not-allowed",
      by: "tier",
      found: "flex",
      allowed: ["chat"],
    });
  });

  test("judges by what the class promises, and admits by what is asked", () => {
    expect(given({ ttftMs: 100 })).toMatchObject({
      promised: { ttft: { limitMs: 1_000 } },
      targets: { ttft: { limitMs: 100 }, tpot: { limitMs: 50 } },
    });
  });

  test("promises nothing that no class of the tenant has", () => {
    const names = fc.constantFrom(
      "chat",
      "interactive",
      "bulk",
      "agent",
      "__proto__",
      "constructor",
      "",
    );
    fc.assert(
      fc.property(names, fc.double({ min: 0.1, max: 1e6, noNaN: true }), (className, ttftMs) => {
        const promise = given({ className, ttftMs });
        if ("kind" in promise) return;
        const own = [TENANT, ...TENANT.classes].find((one) => one.className === className);
        expect(promise.promised).toBe(own?.targets);
      }),
    );
  });
});
