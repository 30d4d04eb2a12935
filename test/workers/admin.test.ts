import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { decodeDecisions } from "../../src/pool/decision-lines.ts";
import { replay } from "../../src/pool/decision-log.ts";
import type { KeyScope } from "../../src/tenants/key-scope.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { settingsOf } from "../../workers/settings.ts";
import { aLiveConfiguration, applyConfiguration, tearDirectory } from "./support/configuration.ts";
import { aGateway, becomesIdle, fetchGateway } from "./support/gateway.ts";
import { connectReplica } from "./support/replica.ts";
import { streamedAnswer } from "./support/upstream.ts";

afterEach(reset);
afterEach(() => vi.useRealTimers());

const { adminKey, replicaSecret } = settingsOf(env);
const ADMIN: KeyScope[] = ["admin"];
const ENDPOINT_URL = "http://127.0.0.1:9101";

function callAdmin(path: string, init: RequestInit = {}, bearer = adminKey): Promise<Response> {
  const headers = { authorization: `Bearer ${bearer}` };
  return fetchGateway(`/admin/v1${path}`, { ...init, headers });
}

function put(body: unknown): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return callAdmin("/configuration", { method: "PUT", body: text });
}

async function liveVersion(): Promise<number> {
  const { version } = await env.DIRECTORY.getByName(DIRECTORY_NAME).summary();
  return version;
}

describe("PUT /admin/v1/configuration", () => {
  test("makes a configuration live and answers with its version", async () => {
    const changes = { added: 4, changed: 0, removed: 0 };
    const first = await put({ configuration: aLiveConfiguration() });
    expect(await first.json()).toEqual({ version: 1, isChanged: true, changes });
    const configuration = aLiveConfiguration({ model: { contextTokens: 4096 } });
    const second = await put({ configuration, expectedVersion: 1 });
    expect(await second.json()).toMatchObject({ version: 2, changes: { added: 0, changed: 1 } });
    expect(await liveVersion()).toBe(2);
  });

  test("refuses to replace a version that is not the expected one", async () => {
    const configuration = aLiveConfiguration();
    await put({ configuration });
    const response = await put({ configuration, expectedVersion: 7 });
    expect(response.status).toBe(412);
    expect(await response.json()).toEqual({
      error: {
        message: "Expected version 7 to be live, found version 1",
        type: "invalid_request_error",
        param: "expectedVersion",
        code: "version_conflict",
      },
    });
    expect(await liveVersion()).toBe(1);
  });

  test("names the place in a configuration that is not whole, and keeps the old one", async () => {
    await put({ configuration: aLiveConfiguration() });
    const response = await put({ configuration: { ...aLiveConfiguration(), pools: [] } });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { param: "configuration.models[0].poolId", code: "invalid_value" },
    });
    expect(await liveVersion()).toBe(1);
  });

  test.each([
    ["no JSON", "{", "invalid_json", null],
    ["no object", "[]", "invalid_json", null],
    ["no configuration", "{}", "missing_required_parameter", "configuration"],
    [
      "a configuration without pools",
      '{"configuration":{}}',
      "missing_required_parameter",
      "configuration.models",
    ],
  ])("refuses a body with %s", async (_what, body, code, param) => {
    const response = await put(body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code, param } });
  });

  test("refuses a body that no configuration can have", async () => {
    const response = await put("x".repeat(2_000_000));
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({ error: { code: "request_too_large" } });
  });
});

describe("GET /admin/v1/status", () => {
  test("tells version 0 and no pools before a configuration is live", async () => {
    expect(await (await callAdmin("/status")).json()).toEqual({
      mode: "local",
      configurationVersion: 0,
      pools: [],
    });
  });

  test("tells of each pool which replicas are connected and how busy they are", async () => {
    await applyConfiguration(aLiveConfiguration({ endpointUrls: [ENDPOINT_URL, "http://b:1"] }));
    await connectReplica(ENDPOINT_URL, { report: { runningRequests: 3, queuedRequests: 2 } });
    const response = await callAdmin("/status");
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      configurationVersion: 1,
      pools: [
        {
          poolId: "local",
          queued: 0,
          replicas: [
            { endpointUrl: ENDPOINT_URL, state: "ready", running: 3, queued: 2 },
            { endpointUrl: "http://b:1", state: "disconnected" },
          ],
        },
      ],
    });
  });
});

describe("GET /admin/v1/pools/{pool}", () => {
  test("tells how one pool is", async () => {
    const gateway = await aGateway();
    const response = await callAdmin(`/pools/${gateway.poolId}`);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      poolId: gateway.poolId,
      leases: 0,
      offered: 0,
      replicas: [{ state: "ready" }],
      tenants: [],
    });
  });

  test.each(["", "/decisions", "/closed"])("of no configuration is 404 (%s)", async (path) => {
    await applyConfiguration(aLiveConfiguration());
    for (const pool of ["elsewhere", "%E0%A4%A", "x".repeat(65)]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const method = path === "/closed" ? "PUT" : "GET";
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await callAdmin(`/pools/${pool}${path}`, { method })).status).toBe(404);
    }
  });
});

describe("/admin/v1/pools/{pool}/closed", () => {
  test("closes a pool, and opens it again", async () => {
    const gateway = await aGateway();
    const path = `/pools/${gateway.poolId}/closed`;
    const closed = await callAdmin(path, { method: "PUT" });
    expect(await closed.json()).toEqual({ poolId: gateway.poolId, isClosed: true });
    const refused = await gateway.ask({ body: { messages: [{ role: "user", content: "Hello" }] } });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      error: { code: "server_is_overloaded", message: expect.stringContaining("about to stop") },
    });
    const opened = await callAdmin(path, { method: "DELETE" });
    expect(await opened.json()).toEqual({ poolId: gateway.poolId, isClosed: false });
    // A closed pool has let it go; an engine dials in again by itself.
    await connectReplica(gateway.upstream.endpointUrlOf(0), { poolId: gateway.poolId });
    await gateway.upstream.answerWith(streamedAnswer(["well"]));
    const body = { stream: true, messages: [{ role: "user", content: "Hello" }] };
    expect(await (await gateway.ask({ body })).text()).toContain("well");
  });
});

describe("/admin/v1/pools/{pool}/replicas/{replica}/drained", () => {
  test("drains a replica, and uses it again", async () => {
    const gateway = await aGateway();
    const replicaId = gateway.upstream.endpointUrlOf(0);
    const pathOf = (url: string) =>
      `/pools/${gateway.poolId}/replicas/${encodeURIComponent(url)}/drained`;
    const stateOf = async () => (await gateway.poolStatus()).replicas[0]?.state;
    const drained = await callAdmin(pathOf(replicaId), { method: "PUT" });
    expect(await drained.json()).toEqual({ poolId: gateway.poolId, replicaId, isDrained: true });
    expect(await stateOf()).toBe("draining");
    const resumed = await callAdmin(pathOf(replicaId), { method: "DELETE" });
    expect(await resumed.json()).toMatchObject({ isDrained: false });
    expect(await stateOf()).toBe("ready");

    const unknown = await callAdmin(pathOf("http://elsewhere.test"), { method: "PUT" });
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toMatchObject({
      error: { message: "There is no replica 'http://elsewhere.test'", param: "replica" },
    });
    expect((await callAdmin(pathOf(replicaId))).status).toBe(405);
  });
});

const deed = (action: string, subject: string, details = "") =>
  expect.objectContaining({ actor: "bootstrap", action, subject, details });

test("what is done to pools, replicas and caches is in the audit log", async () => {
  const gateway = await aGateway();
  const pool = `/pools/${gateway.poolId}`;
  const replicaId = gateway.upstream.endpointUrlOf(0);
  const deeds = [
    ["PUT", `${pool}/replicas/${encodeURIComponent(replicaId)}/drained`],
    ["PUT", `${pool}/closed`],
    ["DELETE", `${pool}/closed`],
    ["POST", `/tenants/${gateway.tenantId}/cache/purge`],
  ] as const;
  for (const [method, path] of deeds) {
    // oxlint-disable-next-line no-await-in-loop -- in this order
    expect((await callAdmin(path, { method })).status).toBe(200);
  }
  const told: { entries: readonly object[] } = await (await callAdmin("/audit?limit=4")).json();
  expect(told.entries).toEqual([
    deed("cache.purge", gateway.tenantId),
    deed("pool.open", gateway.poolId),
    deed("pool.close", gateway.poolId),
    deed("replica.drain", gateway.poolId, replicaId),
  ]);
});

describe("GET /admin/v1/pools/{pool}/decisions", () => {
  test("gives what it takes to make every decision again, and nothing of prompts or secrets", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedAnswer(["secret", " answer"]));
    const body = { stream: true, messages: [{ role: "user", content: "secret prompt" }] };
    await (await gateway.ask({ body })).text();
    await gateway.ask({ body: { model: gateway.modelId, messages: body.messages }, key: "sk-no" });
    await becomesIdle(gateway);

    const response = await callAdmin(`/pools/${gateway.poolId}/decisions`);
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const text = await response.text();
    const { epoch, records, isWhole } = decodeDecisions(text);
    expect(isWhole).toBe(true);
    const calls = records.flatMap((record) => record.calls.map(({ call }) => call.kind));
    expect(calls).toEqual(expect.arrayContaining(["configure", "report", "offer", "started"]));
    // One request, settled once, though its lease is disposed of as well.
    expect(calls.filter((kind) => kind === "settle")).toHaveLength(1);
    for (const record of records) {
      expect(replay(record, { epoch, startedAtMs: 0, seed: 0 })).toEqual([]);
    }
    expect(text).not.toMatch(/secret|sluice-local-/);
    expect(text).not.toContain(gateway.key);
  });

  test("answers a client that leaves early, and the next one as a whole", async () => {
    const gateway = await aGateway();
    const path = `/pools/${gateway.poolId}/decisions`;
    await (await callAdmin(path)).body?.cancel();
    expect(decodeDecisions(await (await callAdmin(path)).text()).isWhole).toBe(true);
  });
});

describe("/admin/v1", () => {
  test("is closed to every key but its own", async () => {
    await applyConfiguration(aLiveConfiguration());
    for (const bearer of [replicaSecret, "sk-nobody", `${adminKey}x`, adminKey.slice(1)]) {
      for (const path of ["/status", "/pools/local", "/pools/local/decisions"]) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        const response = await callAdmin(path, {}, bearer);
        expect(response.status).toBe(401);
        expect(await response.json()).toMatchObject({ error: { code: "invalid_api_key" } });
      }
    }
    const anonymous = await fetchGateway("/admin/v1/configuration", { method: "PUT", body: "{}" });
    expect(await anonymous.json()).toMatchObject({ error: { code: "missing_api_key" } });
    expect(await liveVersion()).toBe(1);
  });

  test("tells an administrator who asks without end to wait, and no other", async () => {
    const keys = ["alice", "bob"].map((name) => ({ key: `sk-${name}`, name, scopes: ADMIN }));
    await applyConfiguration(aLiveConfiguration({ keys }));
    // A bucket that fills meanwhile would have room for all of them on a machine that is slow.
    vi.useFakeTimers({ toFake: ["Date"] });
    const answers = await Promise.all(
      Array.from({ length: 260 }, () => callAdmin("/nothing", {}, "sk-alice")),
    );
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBe(60);
    expect(refused[0]?.headers.get("retry-after-ms")).toMatch(/^\d+$/);
    expect((await callAdmin("/status", {}, "sk-bob")).status).toBe(200);
  });

  test("answers a wrong method with the right ones, and an unknown path in the envelope", async () => {
    const wrong = await callAdmin("/configuration", { method: "POST", body: "{}" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "PUT"]);
    const unknown = await callAdmin("/nothing");
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toMatchObject({ error: { code: "not_found" } });
  });

  test("a stored configuration that is torn can be replaced over the API", async () => {
    await applyConfiguration(aLiveConfiguration());
    await tearDirectory();
    expect(await (await put({ configuration: aLiveConfiguration() })).json()).toMatchObject({
      version: 2,
    });
    expect((await callAdmin("/status")).status).toBe(200);
  });
});
