import { abortAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { PoolId, TenantId } from "../../src/protocol/ids.ts";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import type { DirectoryObject } from "../../workers/directory-object.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import type { KeyWish } from "./support/configuration.ts";
import {
  aLiveConfiguration,
  applyConfiguration,
  hashOfKey,
  tearDirectory,
  TEST_KEY,
  tryConfiguration,
} from "./support/configuration.ts";

afterEach(reset);

const directory = () => env.DIRECTORY.getByName(DIRECTORY_NAME);
const local = PoolId.parse("local");

describe("DirectoryObject", () => {
  test("says that nothing is configured, not that a key is wrong, before the first apply", async () => {
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({ kind: "unconfigured" });
    expect(await directory().poolConfiguration(local)).toBeUndefined();
    expect(await directory().summary()).toMatchObject({ version: 0, poolIds: [] });
  });

  test("answers a key with its tenant, the tenant's models and the version", async () => {
    const configuration = aLiveConfiguration({ keys: [{ key: TEST_KEY, expiresAtMs: 7 }] });
    await applyConfiguration(configuration);
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({
      kind: "known",
      access: {
        tenant: configuration.tenants[0],
        keyName: "key-1",
        keyHash: hashOfKey(TEST_KEY),
        scopes: ["inference", "usage"],
        models: configuration.models,
        fallbackModels: [],
        expiresAtMs: 7,
        cacheGeneration: 0,
        configurationVersion: 1,
        directoryState: expect.any(String),
      },
    });
    expect(await directory().lookup(hashOfKey("sk-other"))).toEqual({ kind: "unknown" });
  });

  test("gives a pool with the version it belongs to, and no pool that is not configured", async () => {
    const configuration = aLiveConfiguration();
    await applyConfiguration(configuration);
    expect(await directory().poolConfiguration(local)).toEqual({
      version: 1,
      pool: configuration.pools[0],
    });
    expect(await directory().poolConfiguration(PoolId.parse("__proto__"))).toBeUndefined();
  });

  test("sums up what is live", async () => {
    await applyConfiguration(aLiveConfiguration());
    expect(await directory().summary()).toEqual({
      version: 1,
      poolIds: ["local"],
      modelCount: 1,
      tenantCount: 1,
      keyCount: 1,
    });
  });

  test("serves the same version after an eviction", async () => {
    await applyConfiguration(aLiveConfiguration());
    await applyConfiguration(aLiveConfiguration({ model: { contextTokens: 4096 } }));
    await abortAllDurableObjects();
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toMatchObject({
      kind: "known",
      access: { configurationVersion: 2 },
    });
  });

  test("a revoked key is unknown from the version on that leaves it out", async () => {
    await applyConfiguration(aLiveConfiguration());
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toMatchObject({ kind: "known" });
    await applyConfiguration(aLiveConfiguration({ keys: [] }));
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({ kind: "unknown" });
  });

  test("of two writers who expect the same version, one wins and the other is told", async () => {
    await applyConfiguration(aLiveConfiguration());
    const answers = await Promise.all(
      ["sk-one", "sk-two"].map((key) =>
        tryConfiguration(aLiveConfiguration({ keys: [{ key }] }), 1),
      ),
    );
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["applied", "conflict"]);
    expect(answers).toEqual(answers.map(() => expect.objectContaining({ version: 2 })));
    const winner = answers[0]?.kind === "applied" ? "sk-one" : "sk-two";
    expect(await directory().lookup(hashOfKey(winner))).toMatchObject({ kind: "known" });
  });

  test("refuses a configuration that is not whole and keeps the old one", async () => {
    await applyConfiguration(aLiveConfiguration());
    const torn: LiveConfiguration = { ...aLiveConfiguration(), pools: [] };
    expect(await tryConfiguration(torn)).toEqual({
      kind: "invalid",
      problems: ["expected models[0].poolId to be the name of something that exists"],
    });
    expect(await directory().summary()).toMatchObject({ version: 1, poolIds: ["local"] });
  });

  test.each([
    [
      "of no tenant",
      { tenantId: TenantId.parse("nobody") },
      "the tenant 'nobody' of the key 'new'",
    ],
    ["under a name that is taken", { name: "key-1" }, "one key 'key-1' of the tenant 'tenant-a'"],
  ])("refuses a key %s and keeps the old ones", async (_what, wish, problem) => {
    await applyConfiguration(aLiveConfiguration());
    const keys = [{ key: TEST_KEY }, { key: "sk-new", name: "new", ...wish }];
    const { keys: live, ...rest } = aLiveConfiguration({ keys: [{ key: TEST_KEY }] });
    const sent = { ...rest, keys: keys.map((key, at) => aKeyOf(live[0], key, at)) };
    expect(await tryConfiguration(sent)).toMatchObject({
      kind: "invalid",
      problems: [expect.stringContaining(problem)],
    });
    expect(await directory().summary()).toMatchObject({ version: 1, keyCount: 1 });
  });

  test.each([
    ["an edited model", "UPDATE live_rows SET value = replace(value, '2048', '4096')", "lookup"],
    ["a lost model", "DELETE FROM live_rows WHERE kind = 'model'", "lookup"],
    ["a lost key", "DELETE FROM live_rows WHERE kind = 'key'", "lookup"],
    ["a key of another tenant", "UPDATE live_rows SET name = 'x' WHERE kind = 'key'", "lookup"],
    ["a tenant in part", "UPDATE live_rows SET value = '{' WHERE kind = 'tenant'", "lookup"],
    [
      "an edited pool",
      "UPDATE live_rows SET value = replace(value, '64', '65')",
      "poolConfiguration",
    ],
    ["rows under another version", "UPDATE versions SET version = version + 1", "summary"],
    ["rows of another program", "UPDATE versions SET format = 1", "summary"],
  ] as const)(
    "never serves %s, and recovers when a good one is applied",
    async (_what, statement, ask) => {
      await applyConfiguration(aLiveConfiguration());
      await tearDirectory(statement);
      const questions = {
        lookup: (object: DirectoryObject): Promise<unknown> => object.lookup(hashOfKey(TEST_KEY)),
        poolConfiguration: (object: DirectoryObject) => object.poolConfiguration(local),
        summary: (object: DirectoryObject) => object.summary(),
      };
      await expect(
        runInDurableObject(directory(), (object) => questions[ask](object)),
      ).rejects.toThrow(/torn or of another program|is stored as another one/);
      const version = await applyConfiguration(aLiveConfiguration());
      expect(await directory().summary()).toMatchObject({ version, keyCount: 1 });
      expect(await directory().lookup(hashOfKey(TEST_KEY))).toMatchObject({ kind: "known" });
    },
  );
});

/** What a test says of a second key beside what the first one has. */
function aKeyOf(
  first: LiveConfiguration["keys"][number] | undefined,
  { key, ...wish }: KeyWish,
  at: number,
): LiveConfiguration["keys"][number] {
  if (first === undefined) throw new Error("Expected a first key");
  return at === 0 ? first : { ...first, hash: hashOfKey(key), ...wish };
}
