import { describe, expect, test } from "vitest";
import { ModelId, TenantId } from "../../src/protocol/ids.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import { aGateway, fetchGateway } from "./support/gateway.ts";
import { wholeAnswer } from "./support/upstream.ts";

const card = (id: string) => ({
  id,
  object: "model",
  created: 0,
  owned_by: "sluice",
  max_model_len: 2048,
});

function get(path: string, key: string, method = "GET"): Promise<Response> {
  return fetchGateway(path, { method, headers: { authorization: `Bearer ${key}` } });
}

describe("GET /v1/models", () => {
  test("lists the models of the key's tenant", async () => {
    const { key } = await aGateway({ modelId: "org/chat" });
    const response = await get("/v1/models", key);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ object: "list", data: [card("org/chat")] });
  });

  test("does not show what the tenant may not use", async () => {
    const key = `sk-test-${crypto.randomUUID()}`;
    const tenantId = TenantId.parse("tenant-without-models");
    await applyConfiguration(
      aLiveConfiguration({ tenants: [{ tenantId, modelIds: [] }], keys: [{ key, tenantId }] }),
    );
    const list = await get("/v1/models", key);
    expect(await list.json()).toEqual({ object: "list", data: [] });
    expect((await get("/v1/models/sluice-tiny", key)).status).toBe(404);
  });

  test("lists a model under its aliases too, each of which can be asked for", async () => {
    const { key, ask, upstream } = await aGateway({
      furtherModels: [{ modelId: ModelId.parse("unused") }],
      aliases: ["gpt-4o", "org/chat"],
    });
    const aliases = ["gpt-4o", "org/chat"].map((name) => ({ ...card(name), root: "sluice-tiny" }));
    expect(await (await get("/v1/models", key)).json()).toEqual({
      object: "list",
      data: [card("sluice-tiny"), ...aliases],
    });
    expect(await (await get("/v1/models/org%2Fchat", key)).json()).toEqual(aliases[1]);
    await upstream.answerWith(wholeAnswer("a"));
    const response = await ask({ body: { model: "gpt-4o" } });
    // As with OpenAI's aliases, the answer says which model it is from.
    expect(await response.json()).toMatchObject({ model: "sluice-tiny" });
    expect((await ask({ body: { model: "unused" } })).status).toBe(404);
  });

  test("needs a key", async () => {
    expect((await fetchGateway("/v1/models")).status).toBe(401);
    expect((await fetchGateway("/v1/models/sluice-tiny")).status).toBe(401);
  });
});

describe("GET /v1/models/{id}", () => {
  test.each(["org%2Fchat%20%C3%A9", "org/chat%20%C3%A9"])("%s finds org/chat é", async (path) => {
    const { key } = await aGateway({ modelId: ModelId.parse("org/chat é") });
    const response = await get(`/v1/models/${path}`, key);
    expect(await response.json()).toEqual(card("org/chat é"));
  });

  test("answers HEAD", async () => {
    const { key } = await aGateway();
    const response = await get("/v1/models/sluice-tiny", key, "HEAD");
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });

  test.each(["nobody", "%ff", "%", "sluice-tiny/"])("%s is 404", async (path) => {
    const { key } = await aGateway();
    const response = await get(`/v1/models/${path}`, key);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "model_not_found" } });
  });
});
