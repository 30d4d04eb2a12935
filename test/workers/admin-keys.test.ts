import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { TenantId } from "../../src/protocol/ids.ts";
import { AuditList } from "../../src/tenants/admin-answers.ts";
import { splitApiKey } from "../../src/tenants/api-key.ts";
import { ACCESS_FRESH_MS } from "../../src/tenants/access-cache.ts";
import type { KeyScope } from "../../src/tenants/key-scope.ts";
import { authenticate } from "../../workers/auth.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { GatewayError } from "../../workers/gateway-error.ts";
import { settingsOf } from "../../workers/settings.ts";
import { ISSUED_KEYS_MAX } from "../../workers/stored-keys.ts";
import { VERSIONS_MAX } from "../../workers/stored-versions.ts";
import { askAdmin, tellAdmin } from "./support/admin.ts";
import {
  aLiveConfiguration,
  applyConfiguration,
  hashOfKey,
  tearDirectory,
  TEST_KEY,
  tryConfiguration,
} from "./support/configuration.ts";
import { fetchGateway } from "./support/gateway.ts";

afterEach(reset);

const KEYS = "/tenants/tenant-a/keys";
const DAY_MS = 86_400_000;
const directory = () => env.DIRECTORY.getByName(DIRECTORY_NAME);

async function createKey(wish: object = {}): Promise<string> {
  const { body } = await tellAdmin(KEYS, { method: "POST", body: { name: "app", ...wish } });
  return String(body["apiKey"]);
}

/** Whose a key is in production at an instant, or the code of the error. */
async function holderOf(apiKey: string, nowMs = Date.now(), scope: KeyScope = "inference") {
  const settings = { ...settingsOf(env), mode: "production" as const };
  const headers = new Headers({ authorization: `Bearer ${apiKey}` });
  try {
    return (await authenticate(headers, { env, settings, nowMs, scope })).keyName;
  } catch (error) {
    return error instanceof GatewayError ? error.problem.code : String(error);
  }
}

const rotate = (key: string, body: object = {}) =>
  tellAdmin(`${KEYS}/${key}/rotate`, { method: "POST", body });

/** What the Directory keeps of those who went. */
const keptOfDeparted = () =>
  runInDurableObject(directory(), (_object, { storage: { sql } }) => ({
    departed: sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM departed_keys").one().n,
    lives: sql.exec("SELECT tenant_id, since_version, life FROM tenant_lives").toArray(),
  }));

/** SQL that has a table `n` of the numbers from 1 to `count`. */
const countingTo = (count: number) =>
  `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;

const laterMs = (count: number) => Date.now() + count * ACCESS_FRESH_MS;

describe("POST /admin/v1/tenants/{tenant}/keys", () => {
  test("makes a key that is shown once, works at once, and is nowhere to be found", async () => {
    await applyConfiguration(aLiveConfiguration());
    const response = await askAdmin(KEYS, { method: "POST", body: { name: "app" } });
    expect([response.status, response.headers.get("cache-control")]).toEqual([201, "no-store"]);
    const { apiKey, key }: { apiKey: string; key: object } = await response.json();
    expect(splitApiKey(apiKey)).toBeDefined();
    expect(key).toMatchObject({
      name: "app",
      source: "issued",
      scopes: ["inference", "usage"],
      createdBy: "bootstrap",
    });
    expect(await holderOf(apiKey)).toBe("app");
    expect(await holderOf(apiKey, Date.now(), "admin")).toBe("permission_denied");
    const told = await Promise.all([askAdmin(KEYS), askAdmin("/audit")]);
    for (const answer of told) {
      // oxlint-disable-next-line no-await-in-loop -- there are two
      const text = await answer.text();
      expect(text).toContain("app");
      expect(text).not.toContain(apiKey);
      expect(text).not.toContain(hashOfKey(apiKey));
    }
  });

  test("makes it for what is asked: scopes, models, classes, from when on and until when", async () => {
    await applyConfiguration(aLiveConfiguration());
    const nowMs = Date.now();
    const permissions = {
      scopes: ["usage"],
      modelIds: ["sluice-tiny"],
      classNames: ["standard"],
      notBeforeAtMs: nowMs + 1_000,
      expiresAtMs: nowMs + 2_000,
    };
    const apiKey = await createKey(permissions);
    expect((await tellAdmin(`${KEYS}?after=a`)).body).toMatchObject({
      keys: [expect.objectContaining({ name: "app", ...permissions }), { name: "key-1" }],
    });
    expect(await holderOf(apiKey, nowMs, "usage")).toBe("invalid_api_key");
    expect(await holderOf(apiKey, nowMs + 1_000, "usage")).toBe("app");
    expect(await holderOf(apiKey, nowMs + 1_999, "inference")).toBe("permission_denied");
    expect(await holderOf(apiKey, nowMs + 2_000, "usage")).toBe("invalid_api_key");
  });

  test.each([
    ["a name that is taken", { name: "key-1" }, "name"],
    ["a name that is none", { name: "no name" }, "name"],
    ["no name", {}, "name"],
    ["a scope that is none", { name: "app", scopes: ["root"] }, "scopes[0]"],
    ["no scope at all", { name: "app", scopes: [] }, "scopes"],
    ["a hash of the sender's choice", { name: "app", hash: "0".repeat(64) }, null],
  ])("refuses %s", async (_what, body, param) => {
    await applyConfiguration(aLiveConfiguration());
    const answer = await tellAdmin(KEYS, { method: "POST", body });
    expect(answer).toMatchObject({ status: 400, body: { error: { param } } });
    expect((await directory().listKeys(aTenant(), "", 10))?.length).toBe(1);
  });

  test("knows no tenant that is not configured", async () => {
    await applyConfiguration(aLiveConfiguration());
    const body = { name: "app" };
    for (const tenant of ["nobody", "__proto__", "x".repeat(65)]) {
      const path = `/tenants/${tenant}/keys`;
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await tellAdmin(path, { method: "POST", body })).status).toBe(404);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await tellAdmin(path)).status).toBe(404);
    }
  });
});

describe("DELETE /admin/v1/tenants/{tenant}/keys/{key}", () => {
  test("ends a key within five seconds, and its name is free again", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    expect(await holderOf(apiKey)).toBe("app");
    expect((await tellAdmin(`${KEYS}/app`, { method: "DELETE" })).status).toBe(200);
    expect(await holderOf(apiKey, Date.now() + ACCESS_FRESH_MS)).toBe("invalid_api_key");
    expect((await tellAdmin(`${KEYS}/app`, { method: "DELETE" })).status).toBe(404);
    expect(await holderOf(await createKey())).toBe("app");
  });

  test("ends a key of the file for good: no apply and no rollback brings it back", async () => {
    await applyConfiguration(aLiveConfiguration());
    expect((await tellAdmin(`${KEYS}/key-1`, { method: "DELETE" })).status).toBe(200);
    const isOver = async () => {
      const found = await directory().lookup(hashOfKey(TEST_KEY));
      const endsAtMs = found.kind === "known" ? found.access.expiresAtMs : undefined;
      return endsAtMs !== undefined && endsAtMs <= Date.now();
    };
    expect(await isOver()).toBe(true);
    await applyConfiguration(aLiveConfiguration({ keys: [] }));
    await applyConfiguration(aLiveConfiguration());
    expect(await isOver()).toBe(true);
    await directory().rollBack(1, { actor: "test", reason: "" });
    expect(await isOver()).toBe(true);
  });
});

describe("POST /admin/v1/tenants/{tenant}/keys/{key}/rotate", () => {
  test("both keys work during the overlap, and then the new one alone", async () => {
    await applyConfiguration(aLiveConfiguration());
    const old = await createKey({ scopes: ["inference"], expiresAtMs: Date.now() + 10 * DAY_MS });
    const { status, body } = await rotate("app", { overlapMs: 60_000 });
    expect([status, body["key"]]).toEqual([
      201,
      expect.objectContaining({ name: "app-2", scopes: ["inference"] }),
    ]);
    const fresh = String(body["apiKey"]);
    const nowMs = Date.now();
    expect(await holderOf(old, nowMs)).toBe("app");
    expect(await holderOf(fresh, nowMs)).toBe("app-2");
    expect(await holderOf(fresh, nowMs, "usage")).toBe("permission_denied");
    expect(await holderOf(old, nowMs + 61_000)).toBe("invalid_api_key");
    // The old key's end was its own: the new one has none unless it is asked for.
    expect(await holderOf(fresh, nowMs + 20 * DAY_MS)).toBe("app-2");
  });

  test("a key of the file is rotated as well, and the file does not prolong it", async () => {
    await applyConfiguration(aLiveConfiguration());
    await rotate("key-1", { overlapMs: 0, name: "fresh" });
    await applyConfiguration(aLiveConfiguration({ model: { contextTokens: 4096 } }));
    const found = await directory().lookup(hashOfKey(TEST_KEY));
    expect(found.kind === "known" && found.access.expiresAtMs).toBeLessThanOrEqual(Date.now());
    expect((await directory().listKeys(aTenant(), "", 10))?.map(({ name }) => name)).toEqual([
      "fresh",
      "key-1",
    ]);
  });

  test("the longer of two overlaps does not let a key live longer", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    await rotate("app", { overlapMs: 1_000 });
    await rotate("app", { overlapMs: 50_000, name: "third" });
    expect(await holderOf(apiKey, Date.now() + 2_000)).toBe("invalid_api_key");
  });

  test("refuses a name that is taken, an overlap of years, and a key that is not there", async () => {
    await applyConfiguration(aLiveConfiguration());
    await createKey();
    expect(await rotate("app", { name: "key-1" })).toMatchObject({ status: 400 });
    expect(await rotate("app", { overlapMs: 400 * DAY_MS })).toMatchObject({ status: 400 });
    expect(await rotate("nobody")).toMatchObject({ status: 404 });
    expect((await directory().listKeys(aTenant(), "", 10))?.length).toBe(2);
  });
});

describe("an issued key", () => {
  test("survives every apply and rollback, and waits for its tenant while that is gone", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    await applyConfiguration(aLiveConfiguration({ model: { contextTokens: 4096 } }));
    expect(await holderOf(apiKey, laterMs(1))).toBe("app");
    const tenants = [{ tenantId: aTenant("other") }];
    await applyConfiguration(aLiveConfiguration({ tenants, keys: [] }));
    expect(await holderOf(apiKey, laterMs(2))).toBe("invalid_api_key");
    await directory().rollBack(1, { actor: "test", reason: "" });
    expect(await holderOf(apiKey, laterMs(3))).toBe("app");
  });

  test("does not open another tenant that gets the name, however the former one was removed", async () => {
    const tenants = [{ tenantId: aTenant("other") }];
    const others = aLiveConfiguration({ tenants, keys: [] });
    const settings = { modelIds: ["sluice-tiny"], className: "standard" };
    const addAgain = () =>
      tellAdmin("/tenants", {
        method: "POST",
        body: { tenantId: "tenant-a", tenant: settings },
      });
    const removals = [
      () => applyConfiguration(others),
      () => tellAdmin("/tenants/tenant-a", { method: "DELETE" }),
      () => directory().rollBack(1, { actor: "test", reason: "" }),
    ];
    await applyConfiguration(others);
    let age = 0;
    for (const remove of removals) {
      /* oxlint-disable no-await-in-loop -- one life after the other */
      await applyConfiguration(
        aLiveConfiguration({ tenants: [{}, { tenantId: aTenant("other") }], keys: [] }),
      );
      const { version: before } = await directory().summary();
      const former = await createKey();
      expect(await holderOf(former, laterMs((age += 1)))).toBe("app");
      const known = await directory().lookup(hashOfKey(former));
      await remove();
      expect(await holderOf(former, laterMs((age += 1)))).toBe("invalid_api_key");
      expect(await addAgain()).toMatchObject({ status: 200 });
      // Neither the former one's keys nor their names are there, nor what was cached for it.
      expect((await tellAdmin(KEYS)).body).toEqual({ keys: [] });
      expect(await holderOf(former, laterMs((age += 1)))).toBe("invalid_api_key");
      const latter = await createKey();
      expect(await holderOf(latter, laterMs(age))).toBe("app");
      const anew = await directory().lookup(hashOfKey(latter));
      expect(anew.kind === "known" && anew.access.cacheGeneration).toBeGreaterThan(
        known.kind === "known" ? known.access.cacheGeneration : Infinity,
      );

      // A rollback brings back the former one, in the place of the latter.
      const back = await directory().rollBack(before, { actor: "test", reason: "" });
      expect(back.kind).toBe("applied");
      expect(await holderOf(former, laterMs((age += 1)))).toBe("app");
      expect(await holderOf(latter, laterMs(age))).toBe("invalid_api_key");
      const again = await directory().rollBack(before, { actor: "test", reason: "" });
      expect(again.kind).toBe("unchanged");
      await tellAdmin(`${KEYS}/app`, { method: "DELETE" });
      /* oxlint-enable no-await-in-loop */
    }
    const { body } = await tellAdmin("/audit");
    expect(JSON.stringify(body)).toContain("1 went with their tenants, 1 came back with them");
  });

  test("that was revoked does not come back with its tenant", async () => {
    await applyConfiguration(aLiveConfiguration());
    await createKey();
    const revoked = await createKey({ name: "gone" });
    await tellAdmin(`${KEYS}/gone`, { method: "DELETE" });
    await applyConfiguration(
      aLiveConfiguration({ tenants: [{ tenantId: aTenant("other") }], keys: [] }),
    );
    await directory().rollBack(1, { actor: "test", reason: "" });
    expect(await holderOf(revoked, laterMs(1))).toBe("invalid_api_key");
    expect((await directory().listKeys(aTenant(), "", 10))?.map(({ name }) => name)).toEqual([
      "app",
      "key-1",
    ]);
  });

  test("that went with its tenant waits until no version has the tenant any more", async () => {
    await applyConfiguration(aLiveConfiguration());
    await createKey();
    const tenants = [{ tenantId: aTenant("other") }];
    const withContext = (contextTokens: number) =>
      applyConfiguration(aLiveConfiguration({ tenants, keys: [], model: { contextTokens } }));
    for (let version = 2; version <= VERSIONS_MAX + 1; version += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one version after the other
      await withContext(version);
    }
    expect((await keptOfDeparted()).departed).toBe(1);
    await withContext(1);
    expect(await keptOfDeparted()).toEqual({
      departed: 0,
      lives: [{ tenant_id: "other", since_version: 2, life: 2 }],
    });
  });

  test("that went with its tenant counts among those that there may be, and its end is not forgotten", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    await rotate("app", { overlapMs: DAY_MS });
    await tellAdmin(`${KEYS}/app-2`, { method: "DELETE" });
    const tenants = [{ tenantId: aTenant("other") }];
    await applyConfiguration(aLiveConfiguration({ tenants, keys: [] }));
    await runInDurableObject(directory(), (_object, { storage: { sql } }) => {
      sql.exec(
        `${countingTo(ISSUED_KEYS_MAX - 1)} INSERT INTO departed_keys
          SELECT 'id-' || i, 'key', 'tenant-a', 'name-' || i, '{}', '', 0, '', 1 FROM n`,
      );
      sql.exec(
        `${countingTo(200_000)} INSERT INTO key_endings SELECT 'end-' || i, 0, ${DAY_MS} FROM n`,
      );
    });
    const path = "/tenants/other/keys";
    const answer = await tellAdmin(path, { method: "POST", body: { name: "one" } });
    expect(answer).toMatchObject({ status: 400 });
    expect(JSON.stringify(answer.body)).toContain("as many keys as there may be");
    await directory().rollBack(1, { actor: "test", reason: "" });
    await runInDurableObject(directory(), (_object, { storage: { sql } }) => {
      expect(sql.exec("SELECT 1 FROM issued_keys WHERE name = 'app'").toArray()).toHaveLength(1);
    });
    expect(await holderOf(apiKey, Date.now() + 2 * DAY_MS)).toBe("invalid_api_key");
  });

  test("that was issued to a tenant before lives were told apart comes back by rollback alone", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    await tearDirectory("DELETE FROM tenant_lives");
    const tenants = [{ tenantId: aTenant("other") }];
    await applyConfiguration(aLiveConfiguration({ tenants, keys: [] }));
    await applyConfiguration(aLiveConfiguration());
    expect(await holderOf(apiKey, laterMs(1))).toBe("invalid_api_key");
    await directory().rollBack(1, { actor: "test", reason: "" });
    expect(await holderOf(apiKey, laterMs(2))).toBe("app");
  });

  test("is kept where its tenant's row was torn and the file is applied anew", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    await tearDirectory("DELETE FROM live_rows WHERE kind = 'tenant'");
    await applyConfiguration(aLiveConfiguration());
    expect(await holderOf(apiKey, laterMs(1))).toBe("app");
  });

  test("stays away where a file's key has its name in the version that is gone back to", async () => {
    await applyConfiguration(aLiveConfiguration());
    await applyConfiguration(aLiveConfiguration({ keys: [] }));
    const apiKey = await createKey({ name: "key-1" });
    const tenants = [{ tenantId: aTenant("other") }];
    await applyConfiguration(aLiveConfiguration({ tenants, keys: [] }));
    expect(await directory().rollBack(1, { actor: "test", reason: "" })).toMatchObject({
      kind: "applied",
    });
    expect(await holderOf(apiKey, laterMs(1))).toBe("invalid_api_key");
    expect(await directory().listKeys(aTenant(), "", 10)).toMatchObject([
      { name: "key-1", source: "file" },
    ]);
  });

  test("is taken over by a file that has its hash, and a file may not have its name for another key", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    const other = aLiveConfiguration({ keys: [{ key: "sk-other", name: "app" }] });
    expect(await tryConfiguration(other)).toMatchObject({
      kind: "invalid",
      problems: [
        expect.stringContaining("'app' of the tenant 'tenant-a': the admin API has issued"),
      ],
    });
    await applyConfiguration(aLiveConfiguration({ keys: [{ key: apiKey, name: "app" }] }));
    expect(await directory().listKeys(aTenant(), "", 10)).toMatchObject([
      { name: "app", source: "file" },
    ]);
    expect(await holderOf(apiKey)).toBe("app");
  });

  test("is told to have been used, to some minutes, once a request with it is over", async () => {
    await applyConfiguration(aLiveConfiguration());
    const apiKey = await createKey();
    const lastUse = async () =>
      (await directory().listKeys(aTenant(), "", 10))?.find(({ name }) => name === "app")
        ?.lastUsedAtMs;
    expect(await lastUse()).toBeUndefined();
    const headers = { authorization: `Bearer ${apiKey}` };
    const beganAtMs = Date.now();
    expect((await fetchGateway("/v1/models", { headers })).status).toBe(200);
    await expect.poll(lastUse, { timeout: 10_000 }).toBeGreaterThanOrEqual(beganAtMs);
    const usedAtMs = await lastUse();
    await directory().countRequests({
      requests: [],
      unknownParameters: 0,
      staleAccesses: 0,
      usedKeys: [hashOfKey(apiKey)],
    });
    expect(await lastUse()).toBe(usedAtMs);
  });

  test("with scope admin runs the gateway, and what it does is written down under its name", async () => {
    await applyConfiguration(aLiveConfiguration());
    const bearer = await createKey({ name: "alice", scopes: ["admin"] });
    expect((await tellAdmin(`${KEYS}/key-1`, { method: "DELETE", bearer })).status).toBe(200);
    expect(
      (await fetchGateway("/metrics", { headers: { authorization: `Bearer ${bearer}` } })).status,
    ).toBe(200);
    const { body } = await tellAdmin("/audit?limit=2", { bearer });
    expect(AuditList.parse(body)).toEqual(body);
    expect(body).toMatchObject({
      entries: [
        { number: 3, actor: "tenant-a/alice", action: "key.revoke", subject: "tenant-a/key-1" },
        { number: 2, actor: "bootstrap", action: "key.create", subject: "tenant-a/alice" },
      ],
    });
    expect((await tellAdmin("/audit?before=2", { bearer })).body).toMatchObject({
      entries: [{ number: 1, actor: "test", action: "apply", subject: "version 1" }],
    });
    const plain = await createKey({ name: "bob" });
    expect((await tellAdmin("/audit", { bearer: plain })).status).toBe(403);
  });
});

function aTenant(name = "tenant-a"): TenantId {
  return TenantId.parse(name);
}
