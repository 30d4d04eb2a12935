import { describe, expect, test } from "vitest";
import { aGateway, CHAT_PATH, fetchGateway } from "./support/gateway.ts";
import { streamedAnswer } from "./support/upstream.ts";

const ORIGIN = { origin: "https://app.example" };

describe("a browser's preflight", () => {
  test("is answered without a key and gets back the headers it asked for", async () => {
    const response = await fetchGateway(CHAT_PATH, {
      method: "OPTIONS",
      headers: {
        ...ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,x-stainless-os",
      },
    });
    expect(response.status).toBe(204);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "access-control-allow-origin": "*",
      "access-control-allow-methods": "GET, HEAD, POST, OPTIONS",
      "access-control-allow-headers": "authorization,x-stainless-os",
      "access-control-max-age": "86400",
    });
    expect(await response.text()).toBe("");
  });

  test("that asks for no headers is allowed none", async () => {
    const response = await fetchGateway(CHAT_PATH, { method: "OPTIONS", headers: ORIGIN });
    expect(response.headers.has("access-control-allow-headers")).toBe(false);
  });
});

describe("a page may read", () => {
  test.each([
    ["an answer", "/health", 200],
    ["an error about its key", "/v1/models", 401],
    ["that there is nothing", "/nowhere", 404],
    ["that its method is wrong", CHAT_PATH, 405],
  ])("%s", async (_, path, status) => {
    const response = await fetchGateway(path, { headers: ORIGIN });
    expect(response.status).toBe(status);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    const exposed = response.headers.get("access-control-expose-headers")?.split(", ");
    expect(exposed).toEqual(
      expect.arrayContaining(["x-request-id", "retry-after", "retry-after-ms", "server-timing"]),
    );
  });

  test("who is no page is told nothing of pages, and no cache mixes the two up", async () => {
    for (const headers of [ORIGIN, {}]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const response = await fetchGateway("/health", { headers });
      expect(response.headers.has("access-control-expose-headers")).toBe(headers === ORIGIN);
      expect(response.headers.has("access-control-allow-origin")).toBe(headers === ORIGIN);
      expect(response.headers.get("vary")).toContain("origin");
    }
  });

  test("a stream", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(streamedAnswer(["a"]));
    const response = await ask({ body: { stream: true }, headers: ORIGIN });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    await response.text();
  });
});

describe("a tenant's pages", () => {
  test("are the only ones that its keys may be used from", async () => {
    const gateway = await aGateway({ tenant: { origins: ["https://app.example"] } });
    await gateway.upstream.answerWith(streamedAnswer(["a"]));
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await gateway.ask({ headers, body: { stream: true } })).status;
    expect(await statusOf(ORIGIN)).toBe(200);
    // What is no page says no origin.
    expect(await statusOf({})).toBe(200);
    for (const origin of ["https://evil.example", "https://app.example.evil", "null"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await statusOf({ origin })).toBe(403);
    }
    // Of another tenant that says nothing of pages all may be used.
    const other = await gateway.ask({
      key: gateway.otherKey,
      headers: { origin: "https://x.example" },
    });
    expect(other.status).not.toBe(403);
  });

  test("hold at every route that asks for a key", async () => {
    const { key } = await aGateway({ tenant: { origins: [] } });
    for (const path of ["/v1/models", "/v1/usage"]) {
      const headers = { ...ORIGIN, authorization: `Bearer ${key}` };
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await fetchGateway(path, { headers })).status).toBe(403);
    }
  });
});
