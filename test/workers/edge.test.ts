import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Env } from "../../workers/env.ts";
import edge from "../../workers/edge.ts";
import { LINKS_MAX } from "../../workers/replica-links.ts";
import { aGateway, CHAT_PATH, fetchGateway } from "./support/gateway.ts";

const SECRET = "sluice-local-replica-secret-of-the-tests";

async function codeOf(response: Response): Promise<string> {
  const body: { error: { code: string } } = await response.json();
  return body.error.code;
}

describe("every answer", () => {
  test.each([
    ["GET", "/health"],
    ["GET", "/nowhere"],
    ["PUT", CHAT_PATH],
    ["POST", CHAT_PATH],
    ["GET", "/v1/models"],
    ["GET", "/admin/v1/status"],
  ])("of %s %s has a request id of ours, and another one each time", async (method, path) => {
    const ask = () => fetchGateway(path, { method, headers: { "x-request-id": "mine" } });
    const ids = (await Promise.all([ask(), ask()])).map(({ headers }) =>
      headers.get("x-request-id"),
    );
    expect(ids[0]).toMatch(/^req_[0-9a-f]{32}$/);
    expect(ids[1]).toMatch(/^req_[0-9a-f]{32}$/);
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe("a path or a method that does not exist", () => {
  test.each([
    "/",
    "/v1",
    "/v2/chat/completions",
    "/v1/chat",
    "/v1/chat/completions/x",
    "/internal",
  ])("%s is 404 in the envelope", async (path) => {
    const response = await fetchGateway(path);
    expect(response.status).toBe(404);
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await codeOf(response)).toBe("not_found");
  });

  test.each([
    ["GET", CHAT_PATH, "POST, OPTIONS"],
    ["DELETE", CHAT_PATH, "POST, OPTIONS"],
    ["POST", "/v1/models", "GET, HEAD, OPTIONS"],
    ["PATCH", "/v1/models/sluice-tiny", "GET, HEAD, OPTIONS"],
    ["POST", "/health", "GET, HEAD, OPTIONS"],
  ])("%s %s is 405 and names what is allowed", async (method, path, allow) => {
    const response = await fetchGateway(path, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe(allow);
    expect(await codeOf(response)).toBe("method_not_allowed");
  });
});

describe("GET /health", () => {
  test("is open to everyone", async () => {
    const response = await fetchGateway("/health");
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ status: "serving", server: "sluice-gateway" });
  });

  test("answers HEAD without a body", async () => {
    const response = await fetchGateway("/health", { method: "HEAD" });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });
});

describe("a Worker without its secrets", () => {
  test.each([
    ["GET", "/health"],
    ["POST", CHAT_PATH],
    ["GET", "/v1/models"],
    ["GET", "/internal/pools/local"],
    ["GET", "/admin/v1/status"],
  ])("refuses %s %s and names what is missing, never a value", async (method, path) => {
    const { SLUICE_REPLICA_SECRET: _, ...rest } = env;
    const unconfigured: Env = rest;
    const response = await edge.fetch(
      new Request(`https://gateway.test${path}`, { method }),
      unconfigured,
      createExecutionContext(),
    );
    expect(response.status).toBe(503);
    const body = await response.text();
    expect(JSON.parse(body)).toMatchObject({ error: { code: "not_configured" } });
    expect(body).toContain("SLUICE_REPLICA_SECRET");
    expect(body).not.toContain("sluice-local");
  });
});

function dialIn(pool: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetchGateway(`/internal/pools/${pool}`, { headers: { upgrade: "websocket", ...headers } });
}

describe("GET /internal/pools/{pool}", () => {
  const authorization = `Bearer ${SECRET}`;

  test("opens a replica's connection to its pool", async () => {
    const { poolId } = await aGateway({ replicaCount: 1 });
    const response = await dialIn(poolId, { authorization });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test("needs the replicas' secret, and a tenant's key is none", async () => {
    const { key, poolId } = await aGateway();
    expect((await dialIn(poolId)).status).toBe(401);
    expect((await dialIn(poolId, { authorization: `Bearer ${key}` })).status).toBe(401);
  });

  test("knows the pools of the configuration only", async () => {
    await aGateway();
    for (const pool of ["nobody", "x".repeat(500), "%ff", "a%2Fb"]) {
      // oxlint-disable-next-line no-await-in-loop -- one status at a time
      const response = await dialIn(pool, { authorization });
      expect(response.status).toBe(404);
      expect(await codeOf(response)).toBe("not_found");
    }
  });

  // Hundreds of handshakes: seconds alone, and many where other tests have the cores.
  test("has no room beyond the bound of a pool's connections", { timeout: 120_000 }, async () => {
    const { poolId } = await aGateway({ replicaCount: 1 });
    const opened = await Promise.all(
      Array.from({ length: LINKS_MAX - 1 }, () => dialIn(poolId, { authorization })),
    );
    for (const { webSocket } of opened) webSocket?.accept();
    const response = await dialIn(poolId, { authorization });
    for (const { webSocket } of opened) webSocket?.close();
    expect(new Set(opened.map(({ status }) => status))).toEqual(new Set([101]));
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await codeOf(response)).toBe("server_is_overloaded");
  });

  test("is a WebSocket and nothing else", async () => {
    const { poolId } = await aGateway();
    const response = await fetchGateway(`/internal/pools/${poolId}`, {
      headers: { authorization },
    });
    expect(response.status).toBe(426);
    expect(response.headers.get("upgrade")).toBe("websocket");
    expect(await codeOf(response)).toBe("upgrade_required");
  });
});

describe("a failure that nobody foresaw", () => {
  test("is 500 without details, and logged with them", async () => {
    const lines: string[] = [];
    const log = console.error;
    console.error = (line: string) => void lines.push(line);
    const broken: Env = {
      ...env,
      DIRECTORY: new Proxy(env.DIRECTORY, {
        get: () => () => {
          throw new TypeError("secret inner detail");
        },
      }),
    };
    const response = await edge.fetch(
      new Request("https://gateway.test/internal/pools/local", {
        headers: { authorization: `Bearer ${SECRET}`, upgrade: "websocket" },
      }),
      broken,
      createExecutionContext(),
    );
    console.error = log;
    expect(response.status).toBe(500);
    const body = await response.text();
    expect(JSON.parse(body)).toEqual({
      error: {
        message: "An internal error occurred",
        type: "server_error",
        param: null,
        code: "internal_error",
      },
    });
    expect(lines.join()).toContain("secret inner detail");
    expect(lines.join()).toContain(response.headers.get("x-request-id"));
  });
});
