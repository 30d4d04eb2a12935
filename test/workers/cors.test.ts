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

  test("a stream", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(streamedAnswer(["a"]));
    const response = await ask({ body: { stream: true }, headers: ORIGIN });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    await response.text();
  });
});
