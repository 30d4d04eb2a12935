import { abortAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { PoolId } from "../../src/protocol/ids.ts";
import { CONFIGURATION_LIMITS, LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import {
  aLiveConfiguration,
  applyConfiguration,
  hashOfKey,
  TEST_KEY,
} from "./support/configuration.ts";

afterEach(reset);

const directory = () => env.DIRECTORY.getByName(DIRECTORY_NAME);
const local = PoolId.parse("local");

/** Changes the stored row behind the object's back and makes it forget what it had loaded. */
async function corrupt(statement: string): Promise<void> {
  await runInDurableObject(directory(), (_object, state) => {
    state.storage.sql.exec(statement);
  });
  await abortAllDurableObjects();
}

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
        models: configuration.models,
        fallbackModels: [],
        expiresAtMs: 7,
        cacheGeneration: 0,
        configurationVersion: 1,
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
    await applyConfiguration(aLiveConfiguration());
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
        directory().apply(aLiveConfiguration({ keys: [{ key }] }), 1),
      ),
    );
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["applied", "conflict"]);
    expect(answers.map(({ version }) => version)).toEqual([2, 2]);
    const winner = answers[0]?.kind === "applied" ? "sk-one" : "sk-two";
    expect(await directory().lookup(hashOfKey(winner))).toMatchObject({ kind: "known" });
  });

  test("refuses a configuration that is not whole and keeps the old one", async () => {
    await applyConfiguration(aLiveConfiguration());
    const torn: LiveConfiguration = { ...aLiveConfiguration(), pools: [] };
    await expect(runInDurableObject(directory(), (object) => object.apply(torn))).rejects.toThrow(
      /the name of something that exists/,
    );
    expect(await directory().summary()).toMatchObject({ version: 1, poolIds: ["local"] });
  });

  test("refuses a configuration that is larger than one value may be, and keeps the old one", async () => {
    const { bytesMax, keysMax } = CONFIGURATION_LIMITS;
    const configuration = aLiveConfiguration();
    await applyConfiguration(configuration);
    const keys = Array.from({ length: keysMax }, (_, index) => ({
      ...configuration.keys[0],
      hash: String(index).padStart(64, "0"),
      name: "n".repeat(64),
      notBeforeAtMs: 1_800_000_000_000,
      expiresAtMs: 1_900_000_000_000,
    }));
    const large = LiveConfiguration.parse({ ...configuration, keys });
    await expect(runInDurableObject(directory(), (object) => object.apply(large))).rejects.toThrow(
      `exceeds ${bytesMax} bytes`,
    );
    expect(await directory().summary()).toMatchObject({ version: 1, keyCount: 1 });
  });

  test.each([
    ["a torn document", "UPDATE live_configuration SET document = substr(document, 1, 90)"],
    [
      "an edited document",
      "UPDATE live_configuration SET document = replace(document, '2048', '4096')",
    ],
    ["a document under another version", "UPDATE live_configuration SET version = version + 1"],
    ["a document of another format", "UPDATE live_configuration SET format = 2"],
  ])("never serves %s, and recovers when a good one is applied", async (_what, statement) => {
    await applyConfiguration(aLiveConfiguration());
    await corrupt(statement);
    for (const ask of ["lookup", "poolConfiguration", "summary"] as const) {
      await expect(
        runInDurableObject(directory(), (object): Promise<unknown> => object[ask](local)),
      ).rejects.toThrow(/torn or of another program/);
    }
    const version = await applyConfiguration(aLiveConfiguration());
    expect(await directory().summary()).toMatchObject({ version, keyCount: 1 });
  });
});
