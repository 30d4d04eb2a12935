import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { VirtualCost } from "../../../src/admission/virtual-cost.ts";
import { copyState } from "../../../src/base/plain-state.ts";
import { TenantId } from "../../../src/protocol/ids.ts";

const A = TenantId.parse("a");
const B = TenantId.parse("b");
const C = TenantId.parse("c");

describe("VirtualCost", () => {
  test("whoever has had least for its weight is next", () => {
    const costs = new VirtualCost();
    for (const tenantId of [A, B, C]) costs.activate(tenantId);
    costs.charge(A, 100, 1);
    costs.charge(B, 100, 4);
    costs.charge(C, 100, 2);
    expect(costs.first(3)).toEqual([B, C, A]);
    expect(costs.first(1)).toEqual([B]);
  });

  test("a tenant that returns is not paid for its absence", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.activate(B);
    costs.deactivate(B);
    costs.charge(A, 1_000, 1);
    costs.settle(A, { chargedMs: 1_000, actualMs: 1_000 }, 1);
    costs.activate(B);
    expect(costs.counterOf(B)).toBe(costs.counterOf(A));
  });

  test("a tenant that returns still has against it what it had above its share", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.activate(B);
    costs.charge(B, 1_000, 1);
    costs.settle(B, { chargedMs: 1_000, actualMs: 1_000 }, 1);
    costs.deactivate(B);
    costs.charge(A, 300, 1);
    costs.activate(B);
    expect(costs.counterOf(B) - costs.counterOf(A)).toBe(700);
  });

  test("who is served while nobody waits moves the floor for those that come", () => {
    const costs = new VirtualCost();
    costs.charge(A, 900, 1);
    costs.settle(A, { chargedMs: 900, actualMs: 500 }, 1);
    costs.activate(B);
    costs.activate(A);
    expect(costs.counterOf(B)).toBe(500);
    expect(costs.counterOf(B)).toBe(costs.counterOf(A));
    expect(costs.first(2)).toEqual([B, A]);
  });

  test("who is served past others that wait is ahead of them when it waits as well", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.charge(B, 500, 1);
    costs.activate(B);
    expect(costs.counterOf(B) - costs.counterOf(A)).toBe(500);
  });

  test("what was charged too much is given back, whether or not the tenant waits", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.charge(A, 500, 1);
    costs.settle(A, { chargedMs: 500, actualMs: 300 }, 1);
    expect(costs.counterOf(A)).toBe(300);
    costs.charge(B, 1_000, 2);
    costs.correct(B, 200, 2);
    costs.settle(B, { chargedMs: 1_200, actualMs: 600 }, 2);
    expect(costs.counterOf(B)).toBe(300 + 300);
    costs.checkInvariants();
  });

  test("a single request in flight raises no floor, since it may be given back", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.charge(A, 100, 1);
    costs.settle(A, { chargedMs: 100, actualMs: 100 }, 1);
    costs.charge(A, 5_000, 1);
    costs.activate(B);
    expect(costs.counterOf(B)).toBe(100);
    costs.settle(A, { chargedMs: 5_000, actualMs: 10 }, 1);
    expect(costs.first(2)).toEqual([B, A]);
    costs.checkInvariants();
  });

  test("many in flight raise it: whoever returns is not ahead of everybody", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    for (let index = 0; index < 10; index += 1) costs.charge(A, 100, 1);
    costs.activate(B);
    expect(costs.counterOf(B)).toBe(1_000);
    costs.checkInvariants();
  });

  test("of idle tenants those least ahead are forgotten first, and never gain by it", () => {
    const costs = new VirtualCost({ idleMax: 3 });
    costs.activate(A);
    const others = Array.from({ length: 10 }, (_, index) => TenantId.parse(`idle-${index}`));
    for (const [index, tenantId] of others.entries()) {
      costs.charge(tenantId, 100 * (index + 1), 1);
      costs.checkInvariants();
    }
    expect(others.map((tenantId) => costs.counterOf(tenantId))).toEqual([
      ...Array.from({ length: 7 }, () => 0),
      800,
      900,
      1000,
    ]);
  });

  test("idle tenants are forgotten as soon as their return would lift them", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    for (let index = 0; index < 100; index++) costs.charge(TenantId.parse(`t${index}`), 10, 1);
    expect(costs.state.idle.entries).toHaveLength(100);
    costs.charge(A, 10, 1);
    expect(costs.state.idle.entries).toHaveLength(100);
    costs.settle(A, { chargedMs: 10, actualMs: 10 }, 1);
    expect(costs.state.idle.entries).toHaveLength(0);
  });

  const TENANTS = [
    { tenantId: A, weight: 1 },
    { tenantId: B, weight: 2 },
    { tenantId: C, weight: 5 },
  ];
  const COST_MAX_MS = 1_000;
  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom("serve", "serve", "serve", "come", "go"),
      tenant: fc.nat(2),
      costMs: fc.integer({ min: 1, max: COST_MAX_MS }),
    }),
    { maxLength: 200, size: "max" },
  );

  test("while two tenants wait, neither gets more than two requests ahead of its share", () => {
    fc.assert(
      fc.property(steps, (sequence) => {
        const costs = new VirtualCost();
        const waiting = new Set<TenantId>();
        /** What each pair has had since both wait. */
        const served = new Map<string, [number, number]>();
        const pairs = [
          [0, 1],
          [0, 2],
          [1, 2],
        ] as const;
        for (const { kind, tenant, costMs } of sequence) {
          const { tenantId } = TENANTS[tenant] ?? { tenantId: A };
          if (kind === "come") {
            costs.activate(tenantId);
            waiting.add(tenantId);
          } else if (kind === "go") {
            costs.deactivate(tenantId);
            waiting.delete(tenantId);
          } else {
            const [next] = costs.first(1);
            if (next === undefined) continue;
            const { weight } = TENANTS.find((one) => one.tenantId === next) ?? { weight: 1 };
            costs.charge(next, costMs, weight);
            costs.settle(next, { chargedMs: costMs, actualMs: costMs }, weight);
            for (const [left, right] of pairs) {
              const sums = served.get(`${left}${right}`);
              if (sums !== undefined && TENANTS[left]?.tenantId === next)
                sums[0] += costMs / weight;
              if (sums !== undefined && TENANTS[right]?.tenantId === next)
                sums[1] += costMs / weight;
            }
          }
          costs.checkInvariants();
          for (const [left, right] of pairs) {
            const both = [TENANTS[left], TENANTS[right]];
            const bothWait = both.every((one) => one !== undefined && waiting.has(one.tenantId));
            const key = `${left}${right}`;
            if (!bothWait) served.delete(key);
            else if (!served.has(key)) served.set(key, [0, 0]);
            const [a, b] = served.get(key) ?? [0, 0];
            const most = COST_MAX_MS / Math.min(...both.map((one) => one?.weight ?? 1));
            expect(Math.abs(a - b)).toBeLessThanOrEqual(2 * most);
          }
        }
      }),
    );
  });

  test("a copy of the state goes on as the original does", () => {
    const costs = new VirtualCost();
    costs.activate(A);
    costs.charge(A, 30, 1);
    costs.charge(C, 90, 1);
    const copy = new VirtualCost({}, copyState(costs.state));
    for (const revived of [costs, copy]) {
      revived.activate(B);
      revived.charge(B, 50, 2);
      revived.activate(C);
      revived.checkInvariants();
    }
    expect(copy.first(3)).toEqual(costs.first(3));
    expect(copy.state).toEqual(costs.state);
  });
});
