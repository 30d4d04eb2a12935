import { createExecutionContext, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import type { Env } from "../../workers/env.ts";
import edge from "../../workers/edge.ts";
import { settingsOf } from "../../workers/settings.ts";
import { PoolId } from "../../src/protocol/ids.ts";
import { parseMetrics, valueOf } from "../support/metric-lines.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import {
  aGateway,
  becomesIdle,
  COMPLETION_PATH,
  EMBEDDINGS_PATH,
  fetchGateway,
} from "./support/gateway.ts";
import {
  chunkFrame,
  jsonAnswer,
  streamedAnswer,
  streamedCompletion,
  wholeAnswer,
} from "./support/upstream.ts";

afterEach(reset);

const { adminKey, replicaSecret } = settingsOf(env);

function scrape(bearer = adminKey, method = "GET"): Promise<Response> {
  return fetchGateway("/metrics", { method, headers: { authorization: `Bearer ${bearer}` } });
}

/** The Worker's metrics where its pools are not what they should be. */
async function scrapeWith(pools: object): Promise<string> {
  const request = new Request("https://gateway.test/metrics", {
    headers: { authorization: `Bearer ${adminKey}` },
  });
  const broken: Env = { ...env, ...pools };
  const response = await edge.fetch(request, broken, createExecutionContext());
  expect(response.status).toBe(200);
  return response.text();
}

/** How many answers there were by now, of all tests of this file. */
const requestsSoFar = async () => {
  const lines = parseMetrics(await (await scrape()).text());
  return (route: string, status: number, code: string) =>
    valueOf(lines, "gw_requests_total", { route, status: String(status), code }) ?? 0;
};

const unknownSoFar = async () =>
  valueOf(parseMetrics(await (await scrape()).text()), "gw_unknown_params_total") ?? 0;

const torn = () => Promise.reject(new Error("torn"));

describe("GET /metrics", () => {
  test("tells how the requests of a pool fared, in Prometheus' own format", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedAnswer(["a", "b"]));
    await (await gateway.ask({ body: { stream: true } })).text();
    await becomesIdle(gateway);

    const response = await scrape();
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const lines = parseMetrics(await response.text());
    const value = (name: string, labels = {}) =>
      valueOf(lines, name, { pool: gateway.poolId, ...labels });
    expect(valueOf(lines, "gw_directory_up")).toBe(1);
    expect(valueOf(lines, "gw_configuration_version")).toBe(1);
    expect(value("gw_pool_up")).toBe(1);
    const startedAtMs = (value("gw_pool_start_time_seconds") ?? 0) * 1000;
    expect(Math.abs(Date.now() - startedAtMs)).toBeLessThan(60_000);
    expect(value("gw_dispatches_total")).toBe(1);
    expect(value("gw_inflight")).toBe(0);
    expect(value("gw_stream_end_total", { by: "done" })).toBe(1);
    expect(value("gw_tokens_total", { type: "output" })).toBe(2);
    const served = { gen_ai_operation_name: "chat", gen_ai_request_model: gateway.modelId };
    expect(value("gen_ai_server_time_to_first_token_seconds_count", served)).toBe(1);
    expect(value("gw_replica_state", { state: "ready" })).toBe(1);
    const tenant = { tenant: gateway.tenantId };
    expect(value("gw_tenant_good_total", tenant)).toBe(1);
    expect(value("gw_tenant_attainment_ratio", { ...tenant, window: "5m" })).toBe(1);
  });

  test("tells how long answers took by what was asked for, and of which model", async () => {
    const gateway = await aGateway({ modelId: "org/alias" });
    const vectors = { object: "list", data: [{ index: 0, embedding: [1] }], model: "m" };
    await gateway.upstream.answerWith(streamedCompletion(["a"]), jsonAnswer(vectors));
    const completed = { path: COMPLETION_PATH, body: { prompt: "a", stream: true } };
    await (await gateway.ask(completed)).text();
    await (await gateway.ask({ path: EMBEDDINGS_PATH, body: { input: "a" } })).text();
    await becomesIdle(gateway);
    const lines = parseMetrics(await (await scrape()).text());
    const counts = ["chat", "text_completion", "embeddings"].map((operation) =>
      valueOf(lines, "gen_ai_server_request_duration_seconds_count", {
        pool: gateway.poolId,
        gen_ai_operation_name: operation,
        gen_ai_request_model: "org/alias",
      }),
    );
    expect(counts).toEqual([undefined, 1, 1]);
  });

  test("counts requests by route, status and code, also those that reach no pool", async () => {
    const gateway = await aGateway();
    const before = await requestsSoFar();
    await gateway.upstream.answerWith(streamedAnswer(["a"]));
    await (await gateway.ask({ body: { stream: true } })).text();
    await gateway.ask({ key: "sk-test-nobody" });
    await gateway.ask({ key: "sk-test-nobody" });
    await gateway.ask({ body: { messages: 1 } });
    await fetchGateway("/secret/path");
    const after = await requestsSoFar();
    const chat = "/v1/chat/completions";
    for (const [route, status, code, more] of [
      [chat, 200, "", 1],
      [chat, 401, "invalid_api_key", 2],
      [chat, 400, "invalid_type", 1],
      ["other", 404, "not_found", 1],
      // The scrape before, which is counted once its answer goes out.
      ["/metrics", 200, "", 1],
    ] as const) {
      expect([
        route,
        status,
        code,
        after(route, status, code) - before(route, status, code),
      ]).toEqual([route, status, code, more]);
    }
  });

  test("says nothing of prompts, answers, keys and requests", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedAnswer(["secret", " answer"]));
    const messages = [{ role: "user", content: "secret prompt", name: "secret name" }];
    const asked = await gateway.ask({ body: { stream: true, messages, user: "secret user" } });
    await asked.text();
    await gateway.ask({ body: { model: "secret-model" } });
    await becomesIdle(gateway);
    const text = await (await scrape()).text();
    expect(text).toContain(gateway.tenantId);
    expect(text).not.toMatch(/secret|sluice-local-|req_/);
    expect(text).not.toContain(gateway.key);
  });

  test("is closed to every key but the admin's, and to all methods but its own", async () => {
    const { key } = await aGateway();
    // A tenant's own key is known, and not for this.
    expect((await scrape(key)).status).toBe(403);
    for (const bearer of [replicaSecret, adminKey.slice(1), `${adminKey}x`]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await scrape(bearer)).status).toBe(401);
    }
    // A key is known, and is not for this.
    expect((await scrape(key)).status).toBe(403);
    expect((await fetchGateway("/metrics")).status).toBe(401);
    const head = await scrape(adminKey, "HEAD");
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const posted = await scrape(adminKey, "POST");
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });

  test("before a configuration is live tells of no pool", async () => {
    const lines = parseMetrics(await (await scrape()).text());
    expect(new Set(lines.map(({ name }) => name))).toEqual(
      new Set([
        "gw_directory_up",
        "gw_configuration_version",
        "gw_requests_total",
        "gw_unknown_params_total",
        "gw_stale_accesses_total",
      ]),
    );
  });

  test("tells of a pool that fails or is silent as away, and of the others all the same", async () => {
    const configuration = aLiveConfiguration();
    const [local] = configuration.pools;
    if (local === undefined) throw new Error("The configuration has no pool");
    const names = ["failing", "silent"].map((name) => PoolId.parse(name));
    const others = names.map((poolId) => ({ ...local, poolId, replicas: [] }));
    await applyConfiguration({ ...configuration, pools: [...others, local] });
    const broken: Record<string, object> = {
      failing: { metrics: () => Promise.reject(new Error("away")) },
      silent: { metrics: () => new Promise<never>(() => {}) },
    };
    const POOLS = new Proxy(env.POOLS, {
      get: (pools) => (name: string) => broken[name] ?? pools.getByName(name),
    });
    const lines = parseMetrics(await scrapeWith({ POOLS }));
    const ups = ["failing", "silent", "local"].map((pool) =>
      valueOf(lines, "gw_pool_up", { pool }),
    );
    expect(ups).toEqual([0, 0, 1]);
    expect(lines.filter(({ name }) => name === "gw_offers_total")).toEqual([
      { name: "gw_offers_total", labels: { pool: "local" }, value: 0 },
    ]);
  });

  test("tells why requests were dispatched again, what was thought, and whose time was over", async () => {
    // Long for a busy machine, and over before anybody looks whether the silent one is still there.
    const gateway = await aGateway({ replicaCount: 2, tenant: { timeouts: { totalMs: 1_900 } } });
    const thought = { prompt_tokens: 1, completion_tokens: 9, total_tokens: 10 };
    const counts = { ...thought, completion_tokens_details: { reasoning_tokens: 7 } };
    const [head, role, token, finish, , ...end] = streamedAnswer(["a"]);
    const answer = [head, role, token, finish, chunkFrame({}, { choices: [], usage: counts })];
    await gateway.upstream.answerWith(
      [{ kind: "reset" }],
      [...answer, ...end].flatMap((step) => step ?? []),
      [{ kind: "hang" }],
    );
    await (await gateway.ask({ body: { stream: true } })).text();
    await (await gateway.ask()).text();
    await becomesIdle(gateway);
    const lines = parseMetrics(await (await scrape()).text());
    const value = (name: string, labels: object) =>
      valueOf(lines, name, { pool: gateway.poolId, ...labels });
    expect(value("gw_upstream_retries_total", { reason: "failed" })).toBe(1);
    expect(value("gw_tokens_total", { type: "reasoning" })).toBe(7);
    expect(value("gw_stream_end_total", { by: "deadline" })).toBe(1);
  });

  test("counts parameters that the API does not have", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const before = await unknownSoFar();
    await (await gateway.ask({ body: { guided_regex: "a", user: "u" } })).text();
    expect((await unknownSoFar()) - before).toBe(1);
  });

  test("tells that the Directory is away, and what pools there are is not known", async () => {
    const DIRECTORY = new Proxy(env.DIRECTORY, {
      get: () => () => ({ summary: torn, metrics: torn, countRequests: torn }),
    });
    const lines = parseMetrics(await scrapeWith({ DIRECTORY }));
    expect(lines).toEqual([{ name: "gw_directory_up", labels: {}, value: 0 }]);
  });
});
