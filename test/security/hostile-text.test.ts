import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import {
  aGateway,
  becomesIdle,
  CHAT_PATH,
  fetchGateway,
  WAIT,
} from "../workers/support/gateway.ts";
import { wholeAnswer } from "../workers/support/upstream.ts";

const ADMIN = { authorization: "Bearer sluice-local-admin-key-of-the-tests" };
const MARK = "hostile";

/** Texts that end a line, a quote, a path or a key, or that look like something else. */
const TEXTS = [
  "__proto__",
  "constructor",
  `${MARK}\n{"level":"info","event":"forged"}`,
  `${MARK}\r\nset-cookie: a=b`,
  `${MARK}"} 1\ngw_forged_total 1`,
  `${MARK}\\`,
  `${MARK}/../../admin/v1/status`,
  `${MARK}%2f..%2f`,
  `${MARK}:0:1`,
  `http://${MARK}.example/`,
  `${MARK}\u2028\u2029`,
  "\u0455luice-tiny",
  "sluice\u2010tiny",
  "sluice-tiny\u200b",
  "ｓluice-tiny",
  `${MARK}\u0000`,
  "x".repeat(10_000),
] as const;

/** Text of a client wherever the API has room for it. */
function bodyWith(text: string): object {
  return {
    user: text,
    safety_identifier: text.slice(0, 64),
    prompt_cache_key: text.slice(0, 1024),
    metadata: { [text.slice(0, 64)]: text.slice(0, 512) },
    [text.slice(0, 100)]: text,
    messages: [{ role: "user", content: text, name: text.slice(0, 64), [text.slice(0, 9)]: text }],
  };
}

describe("text of a client", () => {
  test("becomes no URL, no header and no other request of ours", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    for (const text of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await ask({ body: bodyWith(text) })).status).toBe(200);
    }
    const sent = await upstream.requests();
    expect(sent).toHaveLength(TEXTS.length);
    const headers = JSON.stringify(sent.map((request) => request.headers));
    expect(headers).not.toContain(MARK);
    expect(headers).not.toContain("xxxx");
    // Only prompts of some length have names for what they begin with.
    const namesOf = (request: (typeof sent)[number]) =>
      Object.keys(request.headers).filter((name) => name !== "x-gw-chain");
    expect(new Set(sent.map((request) => namesOf(request).toSorted().join()))).toHaveProperty(
      "size",
      1,
    );
  });

  test("in a model's name finds no model but the one of that very name, and is not repeated", async () => {
    const { ask } = await aGateway();
    for (const model of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const response = await ask({ body: { model } });
      expect([400, 404]).toContain(response.status);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await response.text()).not.toContain(MARK);
    }
  });

  test("is one JSON line of the log at most, and in no line but the id that its client chose", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    for (const text of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await ask({ body: bodyWith(text) });
    }
    await ask({ headers: { "x-request-id": `${MARK}"}{"a":"\u00e9` } });
    const count = TEXTS.length + 1;
    await vi.waitFor(() => expect(log).toHaveBeenCalledTimes(count), WAIT);
    const lines = log.mock.calls.map(([line]) => String(line));
    for (const line of lines) {
      expect(line).not.toMatch(/[\n\r\u2028\u2029]/);
      expect(JSON.parse(line)).toMatchObject({ event: "request" });
    }
    expect(lines.filter((line) => line.includes(MARK))).toHaveLength(1);
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ clientRequestId: `${MARK}"}{"a":"?` });
  });

  test("is no label of a metric, and ends none", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    for (const text of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await ask({ body: bodyWith(text) });
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await fetchGateway(`/${encodeURIComponent(text)}`);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await fetchGateway(`/v1/models/${encodeURIComponent(text)}`);
    }
    const metrics = await (await fetchGateway("/metrics", { headers: ADMIN })).text();
    expect(metrics).toContain("gw_requests_total");
    expect(metrics).not.toContain(MARK);
    expect(metrics).not.toContain("gw_forged_total");
  });

  test("is no key of what is stored", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    for (const text of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await gateway.ask({ body: bodyWith(text) });
    }
    await becomesIdle(gateway);
    const keys = await runInDurableObject(
      env.TENANTS.getByName(gateway.tenantId),
      async (_object, state) => [...(await state.storage.list()).keys()],
    );
    expect(keys.length).toBeGreaterThan(TEXTS.length);
    for (const key of keys) expect(key).toMatch(/^[a-z]+(-[a-z]+)*(:[\w.:-]+)?$/);
    expect(keys.join()).not.toContain(MARK);
  });

  test("in the name of a pool or a tenant makes no object", async () => {
    await aGateway();
    const spies = [vi.spyOn(env.POOLS, "getByName"), vi.spyOn(env.TENANTS, "getByName")];
    for (const text of TEXTS) {
      const name = encodeURIComponent(text);
      for (const path of [
        `pools/${name}`,
        `pools/${name}/decisions`,
        `tenants/${name}/usage`,
        `slo?tenant=${name}`,
      ]) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        const response = await fetchGateway(`/admin/v1/${path}`, { headers: ADMIN });
        expect([400, 404]).toContain(response.status);
      }
    }
    // Objects of other tests may still find each other meanwhile.
    const names = spies.flatMap(({ mock }) => mock.calls.map(([name]) => name));
    expect(names.filter((name) => TEXTS.some((text) => name.includes(text)))).toEqual([]);
  });

  test("as a class or a tier is refused, and told back as one quoted piece at most", async () => {
    const { ask } = await aGateway();
    for (const text of TEXTS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const tier = await ask({ body: { service_tier: text } });
      expect(tier.status).toBe(400);
      const isHeader = /^[\x20-\x7e]+$/.test(text);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const named = isHeader ? await ask({ headers: { "x-sluice-class": text } }) : tier;
      expect(named.status).toBe(400);
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await named.text()).length).toBeLessThan(500);
    }
  });

  test("as a body that would change what all objects inherit changes nothing", async () => {
    const { key, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    const body =
      '{"__proto__":{"stream":true,"polluted":1},"constructor":{"prototype":{"polluted":1}},' +
      '"model":"sluice-tiny","messages":[{"role":"user","content":"a","__proto__":{"polluted":1}}]}';
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetchGateway(CHAT_PATH, { method: "POST", headers, body });
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });
});

const statusOf = async (given: string): Promise<number> =>
  (await fetchGateway("/v1/models", { headers: { authorization: `Bearer ${given}` } })).status;

describe("a key that looks like another one", () => {
  test("is another one", async () => {
    const { key } = await aGateway();
    expect(await statusOf(key)).toBe(200);
    for (const other of [
      key.toUpperCase(),
      `${key} `.replace(" ", "%20"),
      key.slice(0, -1),
      `${key}.`,
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await statusOf(other)).toBe(401);
    }
  });
});
