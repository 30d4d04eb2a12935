import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { CHAT } from "../../src/protocol/operation.ts";
import type { LiveTenant } from "../../src/tenants/live-configuration.ts";
import { requestKeysOf } from "../../workers/request-keys.ts";
import { settingsOf } from "../../workers/settings.ts";
import { aLiveConfiguration } from "./support/configuration.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, COMPLETION_PATH, fetchGateway } from "./support/gateway.ts";
import { jsonAnswer, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const TEXT = "The quick brown fox jumps over the lazy dog. ".repeat(40);
const PROMPT = { messages: [{ role: "system", content: TEXT }] };

interface Sent {
  readonly salt: string | undefined;
  readonly chain: string | undefined;
}

/** Asks one request after the other, and returns by what names the replica was to cache each. */
async function sentOf(gateway: TestGateway, asked: Parameters<TestGateway["ask"]>[0][]) {
  await gateway.upstream.answerWith(wholeAnswer("Yes"));
  for (const wish of asked) {
    // oxlint-disable-next-line no-await-in-loop -- the replica tells them apart by their order
    const response = await gateway.ask({ ...wish, body: { ...PROMPT, ...wish?.body } });
    expect(response.status).toBe(200);
    // oxlint-disable-next-line no-await-in-loop
    await response.text();
  }
  const received = await gateway.upstream.requests();
  return received.slice(-asked.length).map(({ headers }): Sent => ({
    salt: headers["x-gw-cache-salt"],
    chain: headers["x-gw-chain"],
  }));
}

function hashesOf(sent: Sent | undefined): readonly string[] {
  return sent?.chain?.split(":")[1]?.match(/.{22}/g) ?? [];
}

/** Keys that the same request of some tenant has. */
function keysWith(tenant: Partial<LiveTenant>, body: object = {}, cacheGeneration = 0) {
  const [whole] = aLiveConfiguration({ tenants: [tenant], keys: [] }).tenants;
  const outline = CHAT.outline({ model: "sluice-tiny", ...PROMPT, ...body });
  if (whole === undefined || outline.kind !== "valid") throw new Error("Expected a valid request");
  const request = { upstreamModel: "sluice-tiny", caching: outline.value.caching };
  return requestKeysOf(request, { tenant: whole, cacheGeneration }, settingsOf(env));
}

describe("a prompt", () => {
  test("of one tenant is found again by it, and never by another one", async () => {
    const gateway = await aGateway();
    const [one, again, other] = await sentOf(gateway, [
      {},
      { body: { temperature: 0.5, prompt_cache_key: "conv-1" } },
      { key: gateway.otherKey },
    ]);
    expect(again).toEqual(one);
    expect(one?.salt).toMatch(/^[\w-]{43}$/);
    expect(hashesOf(one)).toHaveLength(3);
    expect(other?.salt).not.toBe(one?.salt);
    expect(new Set([one, other].flatMap(hashesOf)).size).toBe(6);
  });

  test("is no more than narrowed by what its client says", async () => {
    const gateway = await aGateway();
    const forged = {
      "x-gw-cache-salt": "stolen",
      "x-gw-chain": `512:${"A".repeat(22)}`,
    };
    const [one, narrowed, tricked] = await sentOf(gateway, [
      {},
      { body: { cache_salt: "mine" } },
      { headers: forged },
    ]);
    expect(narrowed?.salt).not.toBe(one?.salt);
    expect(tricked).toEqual(one);
  });

  test("that is to be cached where it is marked, and is marked nowhere, is not cached", async () => {
    const gateway = await aGateway();
    const explicit = { prompt_cache_options: { mode: "explicit" } };
    const marked = [{ type: "text", text: TEXT, cache_control: { type: "ephemeral" } }];
    const [plain, off, offAgain, on] = await sentOf(gateway, [
      {},
      { body: explicit },
      { body: explicit },
      { body: { ...explicit, messages: [{ role: "system", content: marked }] } },
    ]);
    expect(new Set([plain?.salt, off?.salt, offAgain?.salt]).size).toBe(3);
    expect([off?.chain, offAgain?.chain]).toEqual([undefined, undefined]);
    expect(on).toEqual(plain);
  });

  test("of a tenant that wants none cached is never found again", async () => {
    const cache = { prompts: false, answers: false, scope: "tenant" } as const;
    const [one, again] = await sentOf(await aGateway({ tenant: { cache } }), [{}, {}]);
    expect(again?.salt).not.toBe(one?.salt);
    expect([one?.chain, again?.chain]).toEqual([undefined, undefined]);
  });

  test("of one end user is its own where the tenant wants that", () => {
    const cache = { prompts: true, answers: false, scope: "user" } as const;
    const [ann, bob, nobody] = [{ user: "ann" }, { user: "bob" }, {}].map((body) =>
      keysWith({ cache }, body),
    );
    expect(new Set([ann?.cacheSalt, bob?.cacheSalt, nobody?.cacheSalt]).size).toBe(3);
    expect(keysWith({ cache }, { user: "ann" })).toEqual(ann);
    expect(keysWith({}, { user: "ann" })).toEqual(keysWith({}));
  });

  test("as plain text has hashes too, and several prompts of one request have none", async () => {
    const gateway = await aGateway();
    const completion = { object: "text_completion", choices: [], usage: null };
    await gateway.upstream.answerWith(jsonAnswer(completion));
    await gateway.ask({ path: COMPLETION_PATH, body: { prompt: TEXT } });
    await gateway.ask({ path: COMPLETION_PATH, body: { prompt: [TEXT, TEXT] } });
    const chains = (await gateway.upstream.requests()).map(({ headers }) => headers["x-gw-chain"]);
    expect(chains).toEqual([expect.stringMatching(/^1802:[\w-]{66}$/), undefined]);
  });
});

describe("what is said of caching", () => {
  test.each([
    [{ prompt_cache_options: { mode: "always" } }, "prompt_cache_options.mode"],
    [{ prompt_cache_options: { ttl: "5y" } }, "prompt_cache_options.ttl"],
    [{ prompt_cache_retention: "for ever" }, "prompt_cache_retention"],
    [{ prompt_cache_key: 7 }, "prompt_cache_key"],
  ])("is refused as %o", async (body, param) => {
    const gateway = await aGateway();
    const response = await gateway.ask({ body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param } });
  });

  test("is taken as every client of the API may say it", async () => {
    const gateway = await aGateway();
    const body = {
      prompt_cache_key: "k",
      prompt_cache_retention: "24h",
      prompt_cache_options: { mode: "implicit", ttl: "30m" },
    };
    await gateway.upstream.answerWith(streamedAnswer(["Yes"]));
    const response = await gateway.ask({ body: { ...body, stream: true } });
    expect(response.status).toBe(200);
    await response.text();
  });
});

function purge(tenant: string, key = settingsOf(env).adminKey): Promise<Response> {
  return fetchGateway(`/admin/v1/tenants/${tenant}/cache/purge`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
  });
}

describe("POST /admin/v1/tenants/{tenant}/cache/purge", () => {
  test("begins a generation in which nothing from before is found", async () => {
    const gateway = await aGateway();
    const { tenantId } = gateway;
    expect(await (await purge(tenantId)).json()).toEqual({ generation: 1 });
    expect(await (await purge(tenantId)).json()).toEqual({ generation: 2 });
    const [sent] = await sentOf(gateway, [{}]);
    const [before, now] = [0, 2].map((generation) => keysWith({ tenantId }, {}, generation));
    expect(sent?.salt).toBe(now?.cacheSalt);
    expect(now?.cacheSalt).not.toBe(before?.cacheSalt);
    expect(new Set([...(before?.hashes ?? []), ...(now?.hashes ?? [])]).size).toBe(6);
  });

  test("is for operators, and for tenants that there are", async () => {
    const { key, tenantId } = await aGateway();
    expect((await purge(tenantId, key)).status).toBe(403);
    expect((await purge("nobody")).status).toBe(404);
    const url = `/admin/v1/tenants/${tenantId}/cache/purge`;
    const headers = { authorization: `Bearer ${settingsOf(env).adminKey}` };
    expect((await fetchGateway(url, { headers })).status).toBe(405);
  });
});
