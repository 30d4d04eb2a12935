import { describe, expect, test } from "vitest";
import { FailingTenants } from "../../../src/pool/failing-tenants.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { anOffer, aReadyPool, firstTokenWithin } from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";
import { anOfferOf, leaseOf } from "./full-pool.ts";

const attempt = (tenant: string, replica: number, dispatchNumber: number) => ({
  tenantId: TenantId.parse(tenant),
  replicaId: replicaIdOf(replica),
  dispatchNumber,
});
const A = TenantId.parse("a");
const PATIENT = { targets: firstTokenWithin(30_000) };
const healthOf = (pool: ReturnType<typeof aReadyPool>, nowMs: number) =>
  pool.status(nowMs).replicas.map(({ health }) => health);

/** Sends a tenant's request to one of two replicas, where it fails. */
function failAt(pool: ReturnType<typeof aReadyPool>, tenant: string, replica: number, n: number) {
  const excludedReplicaIds = [replicaIdOf(1 - replica)];
  const offer = anOfferOf(tenant, `${tenant}${n}`, { ...PATIENT, excludedReplicaIds });
  pool.settle(leaseOf(pool.offer(offer, n)), { kind: "upstream-failed" }, n);
}

describe("a tenant is to blame", () => {
  test("once its requests have failed at two replicas", () => {
    const tenants = new FailingTenants();
    tenants.failed(attempt("a", 0, 1));
    expect(tenants.isToBlame(A)).toBe(false);
    tenants.failed(attempt("a", 1, 2));
    expect(tenants.isToBlame(A)).toBe(true);
    tenants.checkInvariants();
  });

  test("not for any number of failures at one", () => {
    const tenants = new FailingTenants();
    for (let number = 1; number < 10; number += 1) tenants.failed(attempt("a", 0, number));
    expect(tenants.isToBlame(A)).toBe(false);
  });

  test("not for another tenant's failures", () => {
    const tenants = new FailingTenants();
    tenants.failed(attempt("a", 0, 1));
    tenants.failed(attempt("b", 1, 2));
    expect(tenants.isToBlame(A)).toBe(false);
  });

  test("until a request goes well that was sent behind the first failure", () => {
    const tenants = new FailingTenants();
    tenants.failed(attempt("a", 0, 10));
    tenants.failed(attempt("a", 1, 11));
    tenants.succeeded(attempt("a", 2, 9));
    expect(tenants.isToBlame(A)).toBe(true);
    tenants.succeeded(attempt("a", 2, 12));
    expect(tenants.isToBlame(A)).toBe(false);
  });

  test("and only the last thousand of those that fail", () => {
    const tenants = new FailingTenants();
    for (let count = 0; count < 2_000; count += 1) {
      tenants.failed(attempt(`t${count}`, 0, 2 * count + 1));
      tenants.failed(attempt(`t${count}`, 1, 2 * count + 2));
    }
    tenants.checkInvariants();
    expect(tenants.state.size).toBeLessThan(2_000);
    expect(tenants.isToBlame(TenantId.parse("t0"))).toBe(false);
    expect(tenants.isToBlame(TenantId.parse("t1999"))).toBe(true);
  });
});

describe("a pool", () => {
  test("keeps a replica that fails the requests of one tenant, which fail elsewhere as well", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    for (let n = 1; n <= 20; n += 1) failAt(pool, "a", n % 2, n);
    expect(healthOf(pool, 21)).not.toContain("ejected");
    pool.checkInvariants();
  });

  test("ejects a replica that fails others too, whoever else fails everywhere", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    for (let n = 1; n <= 4; n += 1) failAt(pool, "a", n % 2, n);
    for (let n = 5; n <= 7; n += 1) failAt(pool, "b", 0, n);
    expect(healthOf(pool, 8)[0]).toBe("ejected");
  });

  test("learns nothing from a probe of whoever is to blame, and sends another", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    for (let n = 1; n <= 3; n += 1) failAt(pool, "b", 0, n);
    failAt(pool, "a", 1, 4);
    const probedAtMs = 5_003;
    for (const index of [0, 1]) pool.report(replicaIdOf(index), aReport(2), probedAtMs);
    failAt(pool, "a", 0, probedAtMs);
    expect(healthOf(pool, probedAtMs)[0]).toBe("probing");
    const offer = anOffer("r", { ...PATIENT, excludedReplicaIds: [replicaIdOf(1)] });
    const leaseId = leaseOf(pool.offer(offer, probedAtMs + 1));
    pool.settle(leaseId, { kind: "completed" }, probedAtMs + 2);
    expect(healthOf(pool, probedAtMs + 2)[0]).toBe("healthy");
  });
});
