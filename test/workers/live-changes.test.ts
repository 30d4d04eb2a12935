import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { ModelId } from "../../src/protocol/ids.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { settingsOf } from "../../workers/settings.ts";
import { issueKey, tellAdmin } from "./support/admin.ts";
import { streamThatGoesOn, tokenFrame, FINISH_FRAME } from "./support/answers.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import { aGateway, becomesIdle, fetchGateway, readEvents, textOf } from "./support/gateway.ts";
import { DONE_FRAME, wholeAnswer } from "./support/upstream.ts";

afterEach(reset);

const STREAM = { stream: true };

describe("a change of the configuration", () => {
  test("drops nothing that is in flight, not even when it takes the tenant, its key and its model away", async () => {
    const gateway = await aGateway();
    const rest = [tokenFrame(" upon"), FINISH_FRAME, DONE_FRAME, { kind: "end" as const }];
    await gateway.upstream.answerWith(
      streamThatGoesOn(["Once"], { kind: "gate", name: "rest" }, ...rest),
    );
    const response = await gateway.ask({ body: STREAM });
    expect(response.status).toBe(200);
    await applyConfiguration(aLiveConfiguration());
    await gateway.upstream.openGate("rest");
    const events = await readEvents(response);
    expect(textOf(events)).toBe("Once upon");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await becomesIdle(gateway);
  });

  test("to keys under load fails no request: the old key works until its holders have the new one", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("Hi"));
    const path = `/tenants/${gateway.tenantId}/keys/key-1/rotate`;
    const statuses: number[] = [];
    const askWith = async (key: string): Promise<void> => {
      statuses.push((await gateway.ask({ key })).status);
    };
    const load = Array.from({ length: 10 }, () => askWith(gateway.key));
    const { body } = await tellAdmin(path, { method: "POST", body: { overlapMs: 60_000 } });
    const fresh = String(body["apiKey"]);
    const later = [gateway.key, fresh, gateway.key, fresh].map(askWith);
    await tellAdmin(`/tenants/${gateway.tenantId}`, {
      method: "PATCH",
      body: { tenant: { concurrencyMax: 50 } },
    });
    await tellAdmin("/configuration/rollback", { method: "POST", body: { version: 1 } });
    await Promise.all([...load, ...later, askWith(gateway.key), askWith(fresh)]);
    expect(statuses).toEqual(Array.from({ length: 16 }, () => 200));
  });
});

describe("a key that is limited", () => {
  test("may use none of its tenant's models but its own, and sees no others", async () => {
    const gateway = await aGateway();
    const limited = { name: "limited", modelIds: [ModelId.parse("another")] };
    const key = await issueKey(gateway.tenantId, limited);
    const response = await gateway.ask({ key });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "model_not_found" } });
    expect(await gateway.upstream.requests()).toEqual([]);
  });

  test("may use no class but its own, and is told which those are", async () => {
    const gateway = await aGateway();
    const key = await issueKey(gateway.tenantId, { name: "limited", classNames: ["bulk"] });
    const response = await gateway.ask({ key });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({
      error: {
        code: "permission_denied",
        message: "The API key may not use the class 'standard': expected one of bulk",
      },
    });
    await gateway.upstream.answerWith(wholeAnswer("Hi"));
    const other = await issueKey(gateway.tenantId, { name: "other", classNames: ["standard"] });
    expect((await gateway.ask({ key: other })).status).toBe(200);
  });

  test("is judged by the class that a request asks for, not by its tenant's own", async () => {
    const gateway = await aGateway({ tenant: { classes: [{ className: "bulk", targets: {} }] } });
    await gateway.upstream.answerWith(wholeAnswer("Hi"));
    const key = await issueKey(gateway.tenantId, { name: "limited", classNames: ["bulk"] });
    expect((await gateway.ask({ key })).status).toBe(403);
    const headers = { "x-sluice-class": "bulk" };
    expect((await gateway.ask({ key, headers })).status).toBe(200);
  });

  test("of scope usage asks no model, and of scope inference sees no usage", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("Hi"));
    const [usage, inference] = await Promise.all(
      ["usage", "inference"].map((scope) =>
        issueKey(gateway.tenantId, { name: scope, scopes: [scope] }),
      ),
    );
    const statusOf = async (key: string | undefined, path?: string) =>
      (await askWithKey(key ?? "", path)).status;
    const askWithKey = (key: string, path?: string) =>
      path === undefined ? gateway.ask({ key }) : askAs(key, path);
    expect(await statusOf(usage)).toBe(403);
    expect(await statusOf(usage, "/v1/models")).toBe(403);
    expect(await statusOf(usage, "/v1/usage")).toBe(200);
    expect(await statusOf(inference)).toBe(200);
    expect(await statusOf(inference, "/v1/models")).toBe(200);
    expect(await statusOf(inference, "/v1/usage")).toBe(403);
    expect(await statusOf(inference, "/metrics")).toBe(403);
  });
});

describe("metrics", () => {
  test("tell how many requests came while the Directory was away", async () => {
    await applyConfiguration(aLiveConfiguration());
    await env.DIRECTORY.getByName(DIRECTORY_NAME).countRequests({
      requests: [],
      unknownParameters: 0,
      staleAccesses: 3,
      usedKeys: [],
    });
    const { adminKey } = settingsOf(env);
    const text = await (await askAs(adminKey, "/metrics")).text();
    expect(text).toMatch(/^gw_stale_accesses_total 3$/m);
  });
});

function askAs(key: string, path: string): Promise<Response> {
  return fetchGateway(path, { headers: { authorization: `Bearer ${key}` } });
}
