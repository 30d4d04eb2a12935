import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TenantId } from "../../../src/protocol/ids.ts";
import {
  ACCESS_ENTRIES_MAX,
  ACCESS_FRESH_MS,
  ACCESS_LAST_GOOD_MS,
  ACCESS_RETRY_MS,
  AccessCache,
} from "../../../src/tenants/access-cache.ts";
import type { TenantAccess } from "../../../src/tenants/tenant-access.ts";

function anAccess(keyHash: string, configurationVersion = 1): TenantAccess {
  return {
    tenant: {
      tenantId: TenantId.parse("tenant-a"),
      modelIds: [],
      className: "standard",
      targets: {},
      shares: [],
    },
    keyName: "prod",
    keyHash,
    scopes: ["inference"],
    models: [],
    cacheGeneration: 0,
    fallbackModels: [],
    configurationVersion,
    directoryState: `state-${configurationVersion}`,
  };
}

describe("AccessCache", () => {
  test("serves a known key without asking for as long as it is fresh, and not longer", () => {
    const cache = new AccessCache();
    cache.learn("k", anAccess("k"), 1000);
    expect(cache.recall("k", 1000 + ACCESS_FRESH_MS - 1)).toMatchObject({ kind: "known" });
    expect(cache.recall("k", 1000 + ACCESS_FRESH_MS)).toEqual({ kind: "ask" });
  });

  test("remembers that a key is unknown for just as long", () => {
    const cache = new AccessCache();
    cache.learn("k", undefined, 1000);
    expect(cache.recall("k", 1000 + ACCESS_FRESH_MS - 1)).toEqual({ kind: "unknown" });
    expect(cache.recall("k", 1000 + ACCESS_FRESH_MS)).toEqual({ kind: "ask" });
  });

  test("a revoked key is not served from memory, even if the Directory goes away next", () => {
    const cache = new AccessCache();
    cache.learn("k", anAccess("k"), 0);
    cache.learn("k", undefined, 6000);
    expect(cache.recall("k", 6001)).toEqual({ kind: "unknown" });
    expect(cache.recallLastGood("k", 12_000)).toBeUndefined();
  });

  test("a key that was unknown is served as soon as the Directory knows it", () => {
    const cache = new AccessCache();
    cache.learn("k", undefined, 0);
    cache.learn("k", anAccess("k"), 6000);
    expect(cache.recall("k", 6001)).toMatchObject({ kind: "known" });
  });

  test("serves the last good answer while the Directory is away, up to ten minutes", () => {
    const cache = new AccessCache();
    cache.learn("k", anAccess("k"), 0);
    expect(cache.recallLastGood("k", ACCESS_LAST_GOOD_MS - 1)).toEqual(anAccess("k"));
    expect(cache.recall("k", ACCESS_LAST_GOOD_MS)).toEqual({ kind: "ask" });
    expect(cache.recallLastGood("k", ACCESS_LAST_GOOD_MS)).toBeUndefined();
  });

  test("asks a Directory that is away only now and then", () => {
    const cache = new AccessCache();
    cache.learn("k", anAccess("k"), 0);
    cache.recallLastGood("k", 6000);
    expect(cache.recall("k", 6000 + ACCESS_RETRY_MS - 1)).toMatchObject({ kind: "known" });
    expect(cache.recall("k", 6000 + ACCESS_RETRY_MS)).toEqual({ kind: "ask" });
  });

  test("has no last good answer for a key it never knew", () => {
    expect(new AccessCache().recallLastGood("k", 0)).toBeUndefined();
  });

  test("a flood of invented keys pushes out no real one", () => {
    const cache = new AccessCache();
    cache.learn("real", anAccess("real"), 0);
    for (let i = 0; i < 3 * ACCESS_ENTRIES_MAX; i += 1) cache.learn(`junk-${i}`, undefined, 0);
    expect(cache.recall("real", 1)).toMatchObject({ kind: "known" });
    cache.checkInvariants();
  });

  test("of a hundred thousand keys and as many that are none remembers no more than its bounds", () => {
    const cache = new AccessCache();
    const KEYS = 100_000;
    for (let i = 0; i < KEYS; i += 1) {
      cache.learn(`k${i}`, anAccess(`k${i}`), 0);
      cache.learn(`junk-${i}`, undefined, 0);
      if (i % ACCESS_ENTRIES_MAX === 0) cache.checkInvariants();
    }
    cache.checkInvariants();
    const isRemembered = (name: string): boolean => cache.recall(name, 1).kind !== "ask";
    const names = Array.from({ length: KEYS }, (_, i) => i);
    expect(names.filter((i) => isRemembered(`k${i}`))).toHaveLength(ACCESS_ENTRIES_MAX);
    expect(names.filter((i) => isRemembered(`junk-${i}`))).toHaveLength(ACCESS_ENTRIES_MAX);
  });

  test("forgets the key first that was not used for longest", () => {
    const cache = new AccessCache();
    for (let i = 0; i < ACCESS_ENTRIES_MAX; i += 1) cache.learn(`k${i}`, anAccess(`k${i}`), 0);
    cache.recall("k0", 1);
    cache.learn("one-more", anAccess("one-more"), 1);
    expect(cache.recall("k0", 2)).toMatchObject({ kind: "known" });
    expect(cache.recall("k1", 2)).toEqual({ kind: "ask" });
    cache.checkInvariants();
  });

  test("never serves an answer that is not the newest, whatever happens in which order", () => {
    const step = fc.record({
      key: fc.constantFrom("a", "b", "c"),
      event: fc.constantFrom("learn", "revoke", "away", "recall"),
      passedMs: fc.integer({ min: 0, max: ACCESS_LAST_GOOD_MS / 3 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cache = new AccessCache();
        const newest = new Map<string, { version: number | undefined; atMs: number }>();
        let nowMs = 0;
        steps.forEach(({ key, event, passedMs }, index) => {
          nowMs += passedMs;
          if (event === "learn" || event === "revoke") {
            const version = event === "learn" ? index + 1 : undefined;
            cache.learn(key, version === undefined ? undefined : anAccess(key, version), nowMs);
            newest.set(key, { version, atMs: nowMs });
          }
          const served =
            event === "away" ? cache.recallLastGood(key, nowMs) : accessOf(cache, key, nowMs);
          cache.checkInvariants();
          if (served === undefined) return;
          expect(served.configurationVersion).toBe(newest.get(key)?.version);
          expect(nowMs - (newest.get(key)?.atMs ?? 0)).toBeLessThan(ACCESS_LAST_GOOD_MS);
        });
      }),
    );
  });
});

function accessOf(cache: AccessCache, key: string, nowMs: number): TenantAccess | undefined {
  const remembered = cache.recall(key, nowMs);
  return remembered.kind === "known" ? remembered.access : undefined;
}
