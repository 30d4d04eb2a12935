import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { PoolId, TenantId } from "../../src/protocol/ids.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { tellAdmin } from "./support/admin.ts";
import {
  aLiveConfiguration,
  applyConfiguration,
  hashOfKey,
  TEST_KEY,
} from "./support/configuration.ts";
import { aGateway } from "./support/gateway.ts";
import { wholeAnswer } from "./support/upstream.ts";

afterEach(reset);

const directory = () => env.DIRECTORY.getByName(DIRECTORY_NAME);
const aTenant = (name: string) => TenantId.parse(name);

const configure = () =>
  applyConfiguration({
    ...aLiveConfiguration(),
    classes: [{ className: "voice", targets: { tbtMaxMs: 200 } }],
  });

const add = (tenantId: string, tenant: object, options: object = {}) =>
  tellAdmin("/tenants", { method: "POST", body: { tenantId, tenant, ...options } });
const change = (tenantId: string, tenant: object, options: object = {}) =>
  tellAdmin(`/tenants/${tenantId}`, { method: "PATCH", body: { tenant, ...options } });

const page = async (query: string) => {
  const { tenants }: { tenants?: { tenantId: string }[] } = (await tellAdmin(`/tenants${query}`))
    .body;
  return tenants?.map(({ tenantId }) => tenantId);
};

describe("POST /admin/v1/tenants", () => {
  test("adds a tenant of a built-in class or one of the file's, which makes a version", async () => {
    await configure();
    const models = ["sluice-tiny"];
    expect(await add("b", { modelIds: models, className: "bulk", weight: 2 })).toMatchObject({
      status: 200,
      body: { tenantId: "b", version: 2, changes: { added: 1, changed: 0, removed: 0 } },
    });
    await add(
      "c",
      { modelIds: models, className: "voice", tokensPerMinuteMax: 7 },
      { reason: "pilot" },
    );
    expect(await directory().tenant(aTenant("b"))).toMatchObject({
      targets: { ttft: { limitMs: 10_000 } },
      shares: [{ poolId: "local", weight: 2, guaranteedRatio: 0, band: 0 }],
    });
    expect(await directory().tenant(aTenant("c"))).toMatchObject({
      targets: { tbtMaxMs: 200 },
      tokensPerMinuteMax: 7,
    });
    expect(await directory().history(100, 1)).toMatchObject([
      { actor: "bootstrap", action: "add tenant c", reason: "pilot" },
    ]);
  });

  test.each([
    ["an unknown class", { className: "bukl" }, "tenant.className"],
    ["an unknown model", { modelIds: ["gpt"] }, "tenant.modelIds[0]"],
    ["no models", { modelIds: [] }, "tenant.modelIds"],
    ["a limit below one", { tokensPerMinuteMax: 0 }, "tenant.tokensPerMinuteMax"],
    ["a word for a number", { weight: "two" }, "tenant.weight"],
    ["targets of its own choice", { targets: {} }, "tenant"],
  ])("refuses %s", async (_what, wish, param) => {
    await configure();
    const answer = await add("b", { modelIds: ["sluice-tiny"], className: "bulk", ...wish });
    expect(answer).toMatchObject({ status: 400, body: { error: { param } } });
    expect((await directory().summary()).version).toBe(1);
  });

  test("names what there is of classes and models, each once, and what was found", async () => {
    const targets = { tbtMaxMs: 200 };
    const classes = ["voice", "chat"].map((className) => ({ className, targets }));
    await applyConfiguration({ ...aLiveConfiguration(), classes });
    const settings = { modelIds: ["sluice-tiny"], className: "bulk" };
    const messageOf = async (wish: object) =>
      (await add("b", { ...settings, ...wish })).body["error"];
    expect(await messageOf({ className: "nope" })).toMatchObject({
      message:
        "Expected 'className' to be one of the classes interactive, chat, standard, agent, bulk, voice, found \"nope\"",
    });
    expect(await messageOf({ className: "vocie" })).toMatchObject({
      message: expect.stringContaining("one of the classes voice, interactive, chat"),
    });
    expect(await messageOf({ modelIds: ["gpt"] })).toMatchObject({
      message: "Expected 'modelIds[0]' to be one of the models sluice-tiny, found \"gpt\"",
    });
    expect(await messageOf({ concurrencyMax: 0 })).toMatchObject({
      message: "Expected 'concurrencyMax' to be more than 0, found 0",
    });
  });

  test("refuses a name that is taken or none, and everything before a configuration is there", async () => {
    const tenant = { modelIds: ["sluice-tiny"], className: "bulk" };
    expect(await add("b", tenant)).toMatchObject({ status: 400 });
    await configure();
    for (const name of ["tenant-a", "a/b", "", "__proto__"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await add(name, tenant)).toMatchObject({
        status: 400,
        body: { error: { param: "tenantId" } },
      });
    }
  });

  test("refuses more guarantees than can be kept", async () => {
    await configure();
    const tenant = { modelIds: ["sluice-tiny"], className: "bulk", guaranteedRatio: 0.6 };
    expect(await add("b", tenant)).toMatchObject({ status: 200 });
    const { status, body } = await add("c", tenant);
    expect(status).toBe(400);
    expect(JSON.stringify(body)).toContain("within what can be guaranteed of its pool");
  });
});

describe("PATCH /admin/v1/tenants/{tenant}", () => {
  test("changes what is named, takes away what is null, and leaves the rest", async () => {
    const shares = [{ poolId: aPool(), weight: 3, guaranteedRatio: 0.2, band: 1 }];
    await applyConfiguration(
      aLiveConfiguration({ tenants: [{ concurrencyMax: 9, tokensPerMinuteMax: 8, shares }] }),
    );
    const wish = {
      tokensPerMinuteMax: 5,
      concurrencyMax: null,
      weight: 4,
      timeouts: { totalMs: 99 },
    };
    expect(await change("tenant-a", wish)).toMatchObject({ body: { version: 2 } });
    const tenant = await directory().tenant(aTenant("tenant-a"));
    expect(tenant).toMatchObject({
      targets: { ttft: { limitMs: 5000 } },
      tokensPerMinuteMax: 5,
      timeouts: { totalMs: 99 },
      shares: [{ poolId: "local", weight: 4, guaranteedRatio: 0.2, band: 1 }],
    });
    expect(tenant).not.toHaveProperty("concurrencyMax");
    expect(await directory().compare({ from: 1, to: 2 }, 10)).toMatchObject({
      changes: [
        {
          name: "tenant-a",
          fields: expect.arrayContaining([{ path: "concurrencyMax", before: "9" }]),
        },
      ],
    });
  });

  test("that changes nothing makes no version, and two who expect the same version do not both win", async () => {
    await configure();
    expect((await change("tenant-a", {})).body).toMatchObject({ version: 1, isChanged: false });
    const answers = await Promise.all(
      [5, 6].map((concurrencyMax) =>
        change("tenant-a", { concurrencyMax }, { expectedVersion: 1 }),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 412]));
    expect((await change("nobody", {})).status).toBe(404);
  });
});

describe("DELETE /admin/v1/tenants/{tenant}", () => {
  test("takes a tenant away with its keys, and a rollback brings both back", async () => {
    await configure();
    await add("b", { modelIds: ["sluice-tiny"], className: "bulk" });
    const removed = await tellAdmin("/tenants/tenant-a?reason=gone", { method: "DELETE" });
    expect(removed.body).toMatchObject({ version: 3, changes: { removed: 2 } });
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toEqual({ kind: "unknown" });
    expect((await tellAdmin("/tenants/tenant-a")).status).toBe(404);
    await tellAdmin("/configuration/rollback", { method: "POST", body: { version: 2 } });
    expect(await directory().lookup(hashOfKey(TEST_KEY))).toMatchObject({ kind: "known" });
  });
});

describe("GET /admin/v1/tenants", () => {
  test("lists tenants by name, a page at a time", async () => {
    const names = ["d", "b", "tenant-a", "c"];
    await applyConfiguration(
      aLiveConfiguration({ tenants: names.map((name) => ({ tenantId: aTenant(name) })) }),
    );
    expect(await page("")).toEqual(["b", "c", "d", "tenant-a"]);
    expect(await page("?after=b&limit=2")).toEqual(["c", "d"]);
    expect((await tellAdmin("/tenants?limit=0")).status).toBe(400);
    expect((await tellAdmin("/tenants?colour=red")).status).toBe(400);
    expect((await tellAdmin("/tenants/b")).body).toMatchObject({ tenant: { tenantId: "b" } });
  });
});

describe("GET /admin/v1/tenants/{tenant}/usage/totals", () => {
  test("tells what each key of a tenant has used, and the tenant in this month", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("Hi"));
    await (await gateway.ask()).text();
    const totals = async () => (await tellAdmin(`/tenants/${gateway.tenantId}/usage/totals`)).body;
    await expect.poll(totals).toMatchObject({
      tenantId: gateway.tenantId,
      openRequests: 0,
      month: { month: expect.stringMatching(/^\d{4}-\d{2}$/), tokens: expect.any(Number) },
      keys: [{ name: "key-1", requests: 1, promptTokens: 12 }],
    });
    expect((await tellAdmin("/tenants/nobody/usage/totals")).status).toBe(404);
  });
});

function aPool(): PoolId {
  return PoolId.parse("local");
}
