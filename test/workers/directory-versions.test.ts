import { abortAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { TenantId } from "../../src/protocol/ids.ts";
import type { Thing } from "../../src/tenants/configuration-rows.ts";
import { thingsOf, toRow } from "../../src/tenants/configuration-rows.ts";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { uploadConfiguration } from "../../workers/apply-configuration.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { VERSIONS_MAX } from "../../workers/stored-versions.ts";
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
const BY = { actor: "test", reason: "" };

const withContext = (tokens: number) => aLiveConfiguration({ model: { contextTokens: tokens } });

/** What is stored of the live configuration, and whatever else there is. */
async function storedRows(): Promise<{ live: unknown[]; staged: number; past: number }> {
  return runInDurableObject(directory(), (_object, { storage: { sql } }) => ({
    live: sql.exec("SELECT kind, id, value FROM live_rows ORDER BY kind, id").toArray(),
    staged: sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM staged_rows").one().n,
    past: sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM past_rows").one().n,
  }));
}

async function contextTokens(): Promise<number | undefined> {
  const found = await directory().lookup(hashOfKey(TEST_KEY));
  return found.kind === "known" ? found.access.models[0]?.contextTokens : undefined;
}

/** Begins an upload, and adds a configuration to it. */
async function beginUpload(configuration: LiveConfiguration) {
  const answer = await directory().upload();
  if (answer.kind === "busy") throw new Error("Expected an upload to be open");
  const rows = [...thingsOf(configuration)].map(rowText);
  await answer.upload.add(`[${rows.join(",")}]`);
  return answer.upload;
}

describe("DirectoryObject.history()", () => {
  test("tells of each version who made it, when, why and what it changed, newest first", async () => {
    const beganAtMs = Date.now();
    await applyConfiguration(withContext(1024));
    const wish = { actor: "acme/alice", action: "apply", reason: "more room" };
    await uploadConfiguration(thingsOf(withContext(4096)), env, (upload) => upload.commit(wish));
    const versions = await directory().history(1_000, 10);
    expect(versions).toEqual([
      expect.objectContaining({
        ...wish,
        version: 2,
        changes: { added: 0, changed: 1, removed: 0 },
        counts: { pool: 1, model: 1, tenant: 1, key: 1 },
      }),
      expect.objectContaining({ version: 1, changes: { added: 4, changed: 0, removed: 0 } }),
    ]);
    for (const { atMs } of versions) expect(atMs).toBeGreaterThanOrEqual(beganAtMs);
    expect((await directory().history(2, 10)).map(({ version }) => version)).toEqual([1]);
    expect(await directory().history(1_000, 1)).toHaveLength(1);
  });

  test("a configuration that is live already makes no version", async () => {
    await applyConfiguration(aLiveConfiguration());
    expect(await tryConfiguration(aLiveConfiguration())).toEqual({ kind: "unchanged", version: 1 });
    expect(await directory().history(1_000, 10)).toHaveLength(1);
  });

  test("keeps the last versions and what they had, and nothing else", async () => {
    const count = VERSIONS_MAX + 3;
    for (let version = 1; version <= count; version += 1) {
      // oxlint-disable-next-line no-await-in-loop -- each version replaces the one before
      expect(await applyConfiguration(withContext(1_000 + version))).toBe(version);
    }
    const versions = await directory().history(1_000, 1_000);
    expect(versions).toHaveLength(VERSIONS_MAX + 1);
    expect(versions.at(-1)?.version).toBe(count - VERSIONS_MAX);
    // One model of each version that is kept, but for the live one.
    expect((await storedRows()).past).toBe(VERSIONS_MAX);
    const oldest = count - VERSIONS_MAX;
    expect(await directory().rollBack(oldest - 1, BY)).toEqual({ kind: "unknown-version" });
    expect(await directory().rollBack(oldest, BY)).toMatchObject({ kind: "applied" });
    expect(await contextTokens()).toBe(1_000 + oldest);
  });
});

describe("DirectoryObject.compare()", () => {
  test("tells which things differ and in which fields, either way round", async () => {
    await applyConfiguration(withContext(1024));
    const tenants = [{ tokensPerMinuteMax: 7 }, { tenantId: aName("b") }];
    const keys = [{ key: "sk-new", name: "new" }];
    await applyConfiguration(aLiveConfiguration({ tenants, keys }));
    expect(await directory().compare({ from: 1, to: 2 }, 10)).toEqual({
      counts: { added: 2, changed: 2, removed: 1 },
      changes: expect.arrayContaining([
        {
          kind: "model",
          name: "sluice-tiny",
          change: "changed",
          fields: [{ path: "contextTokens", before: "1024", after: "2048" }],
        },
        {
          kind: "tenant",
          name: "tenant-a",
          change: "changed",
          fields: [{ path: "tokensPerMinuteMax", after: "7" }],
        },
        expect.objectContaining({
          kind: "tenant",
          name: "b",
          change: "added",
          fields: expect.arrayContaining([{ path: "className", after: '"standard"' }]),
        }),
        { kind: "key", name: "tenant-a/new", change: "added", fields: [] },
        { kind: "key", name: "tenant-a/key-1", change: "removed" },
      ]),
    });
    expect(await directory().compare({ from: 2, to: 1 }, 1)).toMatchObject({
      counts: { added: 1, changed: 2, removed: 2 },
      // Who would be locked out comes first, however much else there is.
      changes: [{ kind: "tenant", name: "b", change: "removed" }],
    });
  });

  test("what was changed and changed back is no difference", async () => {
    for (const tokens of [1024, 2048, 1024]) {
      // oxlint-disable-next-line no-await-in-loop -- each version replaces the one before
      await applyConfiguration(withContext(tokens));
    }
    const none = { counts: { added: 0, changed: 0, removed: 0 }, changes: [] };
    expect(await directory().compare({ from: 1, to: 3 }, 10)).toEqual(none);
    expect(await directory().compare({ from: 2, to: 2 }, 10)).toEqual(none);
    expect(await directory().compare({ from: 1, to: 4 }, 10)).toBeUndefined();
    expect(await directory().compare({ from: 0, to: 3 }, 10)).toBeUndefined();
  });
});

describe("DirectoryObject.rollBack()", () => {
  test("makes a former version live under a new number, and back again", async () => {
    await applyConfiguration(withContext(1024));
    await applyConfiguration(aLiveConfiguration({ keys: [] }));
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({ kind: "unknown" });
    expect(await directory().rollBack(1, { ...BY, expectedVersion: 2 })).toMatchObject({
      kind: "applied",
      version: 3,
    });
    expect(await contextTokens()).toBe(1024);
    expect(await directory().history(1_000, 1)).toMatchObject([{ action: "rollback to 1" }]);
    expect(await directory().rollBack(2, BY)).toMatchObject({ version: 4 });
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({ kind: "unknown" });
    expect(await directory().compare({ from: 2, to: 4 }, 10)).toMatchObject({ changes: [] });
  });

  test("refuses what is not kept, another live version than the expected one, and torn rows", async () => {
    await applyConfiguration(withContext(1024));
    await applyConfiguration(withContext(2048));
    expect(await directory().rollBack(7, BY)).toEqual({ kind: "unknown-version" });
    expect(await directory().rollBack(1, { ...BY, expectedVersion: 1 })).toEqual({
      kind: "conflict",
      version: 2,
    });
    await tearDirectory("UPDATE past_rows SET value = replace(value, '1024', '1025')");
    await expect(
      runInDurableObject(directory(), (object) => object.rollBack(1, BY)),
    ).rejects.toThrow(/torn or of another program/);
    expect(await contextTokens()).toBe(2048);
    expect((await storedRows()).staged).toBe(0);
  });

  test("every version can be had back as it was, whatever came between", async () => {
    const configurations = fc.array(
      fc.record({
        contextTokens: fc.constantFrom(1024, 2048, 4096),
        keys: fc.uniqueArray(fc.constantFrom("sk-1", "sk-2", "sk-3"), { maxLength: 3 }),
        tenants: fc.uniqueArray(fc.constantFrom("tenant-a", "b", "c"), { minLength: 1 }),
      }),
      { minLength: 2, maxLength: 5 },
    );
    await fc.assert(
      fc.asyncProperty(configurations, fc.nat(), async (wishes, choice) => {
        await reset();
        const rowsByVersion = new Map<number, unknown[]>();
        for (const wish of wishes) {
          const { tenants, keys } = wish;
          const configuration = aLiveConfiguration({
            model: { contextTokens: wish.contextTokens },
            tenants: tenants.map((name) => ({ tenantId: aName(name) })),
            keys: keys.map((key) => ({ key, name: key, tenantId: aName(tenants[0] ?? "") })),
          });
          // oxlint-disable-next-line no-await-in-loop -- each version replaces the one before
          const version = await applyConfiguration(configuration);
          // oxlint-disable-next-line no-await-in-loop -- as above
          rowsByVersion.set(version, (await storedRows()).live);
        }
        const target = 1 + (choice % rowsByVersion.size);
        await directory().rollBack(target, BY);
        expect((await storedRows()).live).toEqual(rowsByVersion.get(target));
      }),
      { numRuns: 20 },
    );
  });
});

describe("DirectoryObject.upload()", () => {
  test("a write that fails half-way leaves the live version as it was", async () => {
    await applyConfiguration(withContext(1024));
    const before = await storedRows();
    await runInDurableObject(directory(), (_object, { storage: { sql } }) => {
      // The last statement of a commit, after all rows have been moved.
      sql.exec(`CREATE TRIGGER full BEFORE INSERT ON versions BEGIN
        SELECT RAISE(ABORT, 'the disk is full'); END`);
    });
    await expect(
      runInDurableObject(directory(), async (object) => {
        const answer = await object.upload();
        if (answer.kind === "busy") throw new Error("Expected an upload to be open");
        await answer.upload.add(`[${[...thingsOf(withContext(4096))].map(rowText).join(",")}]`);
        return answer.upload.commit({ ...BY, action: "apply" });
      }),
    ).rejects.toThrow(/the disk is full/);
    expect((await storedRows()).live).toEqual(before.live);
    expect(await contextTokens()).toBe(1024);
    await runInDurableObject(directory(), (_object, { storage: { sql } }) => {
      sql.exec("DROP TRIGGER full");
    });
    expect(await applyConfiguration(withContext(4096))).toBe(2);
  });

  test("what is sent and not committed is never live, and gone when its sender or the object is", async () => {
    await applyConfiguration(withContext(1024));
    using upload = await beginUpload(withContext(4096));
    expect((await storedRows()).staged).toBeGreaterThan(0);
    expect(await contextTokens()).toBe(1024);
    upload[Symbol.dispose]();
    await expect.poll(async () => (await storedRows()).staged).toBe(0);
    await beginUpload(withContext(4096));
    await abortAllDurableObjects();
    expect((await storedRows()).staged).toBe(0);
    expect(await contextTokens()).toBe(1024);
  });

  test("two uploads do not mix, and the one that comes second wins where none expects a version", async () => {
    await applyConfiguration(withContext(1024));
    using first = await beginUpload(aLiveConfiguration({ model: { contextTokens: 1 }, keys: [] }));
    using second = await beginUpload(withContext(2));
    expect(await first.commit({ ...BY, action: "apply" })).toMatchObject({ version: 2 });
    expect(await second.commit({ ...BY, action: "apply" })).toMatchObject({ version: 3 });
    expect(await contextTokens()).toBe(2);
  });

  test("a preview tells what would change, and changes nothing", async () => {
    await applyConfiguration(withContext(1024));
    using upload = await beginUpload(aLiveConfiguration({ keys: [] }));
    expect(await upload.preview(10)).toMatchObject({
      counts: { added: 0, changed: 1, removed: 1 },
      problems: [],
    });
    expect(await storedRows()).toMatchObject({ staged: 0 });
    expect(await contextTokens()).toBe(1024);
  });

  test("tells first who would be locked out, with the keys that were issued to them", async () => {
    const tenants = [{}, { tenantId: aName("b") }, { tenantId: aName("z") }];
    await applyConfiguration(aLiveConfiguration({ tenants }));
    const place = { tenantId: aName("z"), actor: "test" };
    await directory().issueKey({ ...place, name: "one", hash: "1".repeat(64) }, {});
    await directory().issueKey({ ...place, name: "two", hash: "2".repeat(64) }, {});
    const next = aLiveConfiguration({
      tenants: [{ tenantId: aName("a") }],
      keys: [],
      model: { contextTokens: 1024 },
    });
    const gone = [
      { kind: "tenant", name: "b", change: "removed" },
      { kind: "tenant", name: "tenant-a", change: "removed" },
      { kind: "tenant", name: "z", change: "removed", issuedKeys: 2 },
      { kind: "key", name: "tenant-a/key-1", change: "removed" },
    ];
    using upload = await beginUpload(next);
    const preview = await upload.preview(4);
    expect(preview).toMatchObject({
      version: 1,
      counts: { added: 1, changed: 1, removed: 4 },
    });
    expect(preview.changes).toEqual(gone);
    await applyConfiguration(next);
    await directory().rollBack(1, BY);
    expect((await directory().compare({ from: 3, to: 2 }, 4))?.changes).toEqual(gone);
    // Those of a version that is not live are not known.
    expect((await directory().compare({ from: 1, to: 2 }, 4))?.changes[2]).toEqual({
      kind: "tenant",
      name: "z",
      change: "removed",
    });
  });

  test("tells what would heal a torn configuration", async () => {
    await applyConfiguration(withContext(1024));
    await tearDirectory("UPDATE live_rows SET value = '{\"mod' WHERE kind = 'model'");
    using upload = await beginUpload(withContext(1024));
    expect(await upload.preview(10)).toMatchObject({
      counts: { added: 0, changed: 1, removed: 0 },
      problems: [],
    });
  });

  test("a fifth upload at once is told to come again", async () => {
    const uploads = await Promise.all(
      Array.from({ length: 4 }, () => beginUpload(aLiveConfiguration())),
    );
    expect(await directory().upload()).toEqual({ kind: "busy" });
    await expect(tryConfiguration(aLiveConfiguration())).rejects.toMatchObject({
      problem: { code: "server_is_overloaded", retryAfterMs: 1000 },
    });
    for (const upload of uploads) upload[Symbol.dispose]();
    await expect.poll(async () => (await directory().upload()).kind).toBe("open");
  });

  test("the same thing twice is refused by its name", async () => {
    const [first, ...rest] = thingsOf(aLiveConfiguration());
    if (first === undefined) throw new Error("Expected a thing");
    await expect(
      uploadConfiguration([first, ...rest, first], env, (upload) => upload.preview(1)),
    ).rejects.toThrow("the pool 'local' is there twice");
  });
});

function rowText(thing: Thing): string {
  return JSON.stringify(toRow(thing));
}

function aName(name: string): TenantId {
  return TenantId.parse(name);
}
