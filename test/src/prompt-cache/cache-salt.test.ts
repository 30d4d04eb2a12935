import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CacheOwner } from "../../../src/prompt-cache/cache-salt.ts";
import { deriveCacheSalt, deriveNamespace } from "../../../src/prompt-cache/cache-salt.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { KEY_PRIMITIVES as PRIMITIVES } from "../../support/key-primitives.ts";

const MASTER = new Uint8Array(32).fill(7);

function saltOf(owner: Partial<CacheOwner> & { tenant: string; model?: string }): string {
  const { tenant, model = "m@1", ...rest } = owner;
  const namespace = deriveNamespace(
    { tenantId: TenantId.parse(tenant), generation: 0, ...rest },
    MASTER,
    PRIMITIVES,
  );
  return deriveCacheSalt(namespace, model, PRIMITIVES);
}

describe("deriveCacheSalt()", () => {
  test.each([
    ["tenant-a", "4q5tIpxcS0WryvbNi26UKmIvFvt4V8iPIYjzx6jHdcA"],
    ["tenant-b", "51FF3TZ-ShfVok1ZQ8Y0iE2GCaNqxr9pLosSJTsT1kk"],
  ])("gives %s the salt of the recorded vector", (tenant, salt) => {
    expect(saltOf({ tenant })).toBe(salt);
  });

  test("depends on each of tenant, generation, client salt, model and master", () => {
    const base = saltOf({ tenant: "tenant-a" });
    const others = [
      saltOf({ tenant: "tenant-b" }),
      saltOf({ tenant: "tenant-a", generation: 1 }),
      saltOf({ tenant: "tenant-a", generation: 1 << 24 }),
      saltOf({ tenant: "tenant-a", clientSalt: "mine" }),
      saltOf({ tenant: "tenant-a", userName: "mine" }),
      saltOf({ tenant: "tenant-a", model: "m@2" }),
      deriveCacheSalt(
        deriveNamespace(
          { tenantId: TenantId.parse("tenant-a"), generation: 0 },
          new Uint8Array(32).fill(8),
          PRIMITIVES,
        ),
        "m@1",
        PRIMITIVES,
      ),
    ];
    expect(new Set([base, ...others]).size).toBe(1 + others.length);
  });

  test("never gives two owners one salt, however their names and client salts are cut", () => {
    const owner = fc.record({
      tenant: fc.string({ minLength: 1, maxLength: 8, unit: fc.constantFrom("a", "\u0000", "é") }),
      userName: fc.string({ maxLength: 8, unit: fc.constantFrom("a", "\u0000", "é") }),
      clientSalt: fc.string({ maxLength: 8, unit: fc.constantFrom("a", "\u0000", "é") }),
      generation: fc.integer({ min: 0, max: 3 }),
    });
    fc.assert(
      fc.property(owner, owner, (one, other) => {
        const isSame = JSON.stringify(one) === JSON.stringify(other);
        expect(saltOf(one) === saltOf(other)).toBe(isSame);
      }),
    );
  });

  test("is legal as a cache salt everywhere: 43 characters of base64url", () => {
    expect(saltOf({ tenant: "租户" })).toMatch(/^[A-Za-z0-9_-]{43}$/);
  });
});
