import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";
import { GUARANTEED_RATIO_MAX } from "../../../src/tenants/share.ts";

interface Tenant {
  readonly models?: readonly string[];
  readonly share?: { readonly weight?: number; readonly guaranteed?: string };
  readonly priority?: number;
}

const POOLS = ["one", "two"];

/** Parses a file with two pools, each with the models `<pool>-a` and `<pool>-b`. */
function parse(tenants: Readonly<Record<string, Tenant>>) {
  const models = POOLS.flatMap((pool) =>
    ["a", "b"].map((model) => [`${pool}-${model}`, { context: 1, pool }]),
  );
  const pools = POOLS.map((pool) => [
    pool,
    { engine: "sluice", replicas: [{ url: `http://${pool}:1` }] },
  ]);
  const document = {
    models: Object.fromEntries(models),
    pools: Object.fromEntries(pools),
    tenants: Object.fromEntries(
      Object.entries(tenants).map(([name, tenant]) => [
        name,
        { keys: [], class: "chat", models: ["one-a"], ...tenant },
      ]),
    ),
  };
  return parseConfiguration(document, { mode: "local", hashKey: () => "" });
}

/** Guaranteed ratios by `tenant/pool`. */
function guaranteedOf(tenants: Readonly<Record<string, Tenant>>): Record<string, number> {
  const parsed = parse(tenants);
  if (parsed.kind === "invalid") throw new Error(JSON.stringify(parsed.problems));
  return Object.fromEntries(
    parsed.configuration.tenants.flatMap(({ tenantId, shares }) =>
      shares.map(({ poolId, guaranteedRatio }) => [`${tenantId}/${poolId}`, guaranteedRatio]),
    ),
  );
}

function problemsOf(tenants: Readonly<Record<string, Tenant>>): string[] {
  const parsed = parse(tenants);
  if (parsed.kind === "ok") return [];
  return parsed.problems.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

describe("guarantees", () => {
  test("tenants without one divide by weight what the explicit ones leave", () => {
    const guaranteed = guaranteedOf({
      explicit: { share: { guaranteed: "30%", weight: 100 } },
      heavy: { share: { weight: 2 } },
      plain: {},
    });
    expect(guaranteed["explicit/one"]).toBe(0.3);
    expect(guaranteed["heavy/one"]).toBeCloseTo(0.4, 12);
    expect(guaranteed["plain/one"]).toBeCloseTo(0.2, 12);
  });

  test("a pool is divided among those who may use it, whatever happens on another one", () => {
    const guaranteed = guaranteedOf({
      here: { models: ["one-a", "one-b"] },
      both: { models: ["one-b", "two-a"] },
      there: { models: ["two-b"], share: { guaranteed: "60%" } },
    });
    expect(Object.keys(guaranteed)).toEqual(["here/one", "both/one", "both/two", "there/two"]);
    expect(guaranteed["here/one"]).toBeCloseTo(0.45, 12);
    expect(guaranteed["both/one"]).toBeCloseTo(0.45, 12);
    expect(guaranteed["both/two"]).toBeCloseTo(0.3, 12);
  });

  test("who is guaranteed nothing in so many words gets nothing", () => {
    const guaranteed = guaranteedOf({ none: { share: { guaranteed: "0%" } }, plain: {} });
    expect(guaranteed).toEqual({ "none/one": 0, "plain/one": GUARANTEED_RATIO_MAX });
  });

  test("rounding guarantees nobody more than can be guaranteed", () => {
    // 0.53 × (0.9 / 0.53) is a bit more than 0.9.
    expect(guaranteedOf({ alone: { share: { weight: 0.53 } } })).toEqual({
      "alone/one": GUARANTEED_RATIO_MAX,
    });
  });

  test("ninety percent can be guaranteed, and not a bit more, of each pool for itself", () => {
    const tenants = {
      a: { share: { guaranteed: "60%" }, models: ["one-a", "one-b", "two-a"] },
      b: { share: { guaranteed: "30%" } },
    };
    expect(problemsOf(tenants)).toEqual([]);
    expect(problemsOf({ ...tenants, c: { share: { guaranteed: "0.5%" } } })).toEqual([
      "pools.one: expected guarantees of at most 90% of it for all tenants together, found 90.5%",
    ]);
  });

  test("too many guarantees are told along with other problems", () => {
    expect(problemsOf({ a: { share: { guaranteed: "95%" }, models: ["one-a", "gone"] } })).toEqual([
      expect.stringContaining("tenants.a.models.1: expected the name of a model"),
      expect.stringContaining("pools.one: expected guarantees of at most 90% of it"),
    ]);
  });

  test("of no pool more than ninety percent is guaranteed, and no less unless all guarantees are explicit", () => {
    const tenant = fc.record({
      models: fc.uniqueArray(fc.constantFrom("one-a", "one-b", "two-a"), { minLength: 1 }),
      share: fc.record(
        {
          weight: fc.double({ min: 0.01, max: 1000, noNaN: true }),
          guaranteed: fc.integer({ min: 0, max: 90 }).map((percent) => `${percent / 10}%`),
        },
        { requiredKeys: [] },
      ),
    });
    fc.assert(
      fc.property(fc.array(tenant, { minLength: 1, maxLength: 10 }), (list) => {
        const guaranteed = guaranteedOf(
          Object.fromEntries(list.map((entry, index) => [`t${index}`, entry])),
        );
        for (const pool of POOLS) {
          const users = list.flatMap(({ models, share }, index) =>
            models.some((model) => model.startsWith(pool))
              ? [{ share, ratio: guaranteed[`t${index}/${pool}`] ?? Number.NaN }]
              : [],
          );
          const sum = users.reduce((total, { ratio }) => total + ratio, 0);
          expect(sum).toBeLessThanOrEqual(GUARANTEED_RATIO_MAX + 1e-9);
          const isAllExplicit = users.every(({ share }) => share.guaranteed !== undefined);
          expect(sum).toBeGreaterThanOrEqual(isAllExplicit ? 0 : GUARANTEED_RATIO_MAX - 1e-9);
        }
      }),
    );
  });
});
