import { expect, test, vi } from "vitest";
import { ModelId, PoolId, ReplicaId, TenantId } from "../../src/protocol/ids.ts";
import type { LiveTenant } from "../../src/tenants/live-configuration.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import { CHAT_PATH, fetchGateway, WAIT } from "./support/gateway.ts";
import { anUpstream, jsonAnswer, wholeAnswer } from "./support/upstream.ts";

const OWN = "own-8b";
const CLOUD = "cloud-large";
/** Of a million tokens: 1 of the currency in, 10 out. */
const PRICE = {
  inputPicosPerToken: 1_000_000,
  cachedInputPicosPerToken: 1_000_000,
  outputPicosPerToken: 10_000_000,
};

/** Where a month's spend is limited every model has its price. */
const FREE = { inputPicosPerToken: 0, cachedInputPicosPerToken: 0, outputPicosPerToken: 0 };

/** A vLLM of one's own with one place, and a cloud API for what does not fit there, which costs money. */
async function aGatewayWithOverflow(tenant: Partial<LiveTenant> = {}) {
  const name = crypto.randomUUID();
  const [own, cloud] = [anUpstream(), anUpstream()];
  const key = `sk-test-${name}`;
  const tenantId = TenantId.parse(`tenant-${name}`);
  const [ownId, cloudId] = [PoolId.parse(`own-${name}`), PoolId.parse(`cloud-${name}`)];
  const shares = [ownId, cloudId].map((poolId) => ({
    poolId,
    weight: 1,
    guaranteedRatio: 0.9,
    band: 0,
  }));
  const { pools, models, tenants, ...rest } = aLiveConfiguration({
    endpointUrls: [own.endpointUrl],
    replicas: [{ requestsMax: 1 }],
    pool: { poolId: ownId, engine: "vllm" },
    model: { poolId: ownId, modelId: ModelId.parse(OWN), price: FREE },
    tenants: [{ tenantId, modelIds: [ModelId.parse(OWN)] }],
    keys: [{ key, tenantId }],
  });
  const url = cloud.endpointUrl;
  const cloudModel = {
    modelId: ModelId.parse(CLOUD),
    poolId: cloudId,
    upstreamModel: "gpt-large",
    contextTokens: 2048,
    price: PRICE,
  };
  const overload = [{ kind: "fallback" as const, modelId: cloudModel.modelId }];
  const overflow = {
    poolId: cloudId,
    engine: "openai" as const,
    replicas: [{ replicaId: ReplicaId.parse(url), endpointUrl: url }],
    queueMax: 64,
  };
  await applyConfiguration({
    ...rest,
    pools: [...pools, overflow],
    models: [...models, cloudModel],
    tenants: tenants.map((one) => ({ ...one, shares, overload, ...tenant })),
  });
  await own.saysOfItself({ "/health": jsonAnswer({}), "/metrics": jsonAnswer({}) });
  await own.answerWith(streamThatGoesOn(["a"], { kind: "hang" }));
  await cloud.answerWith(wholeAnswer("from the cloud"));
  const authorization = `Bearer ${key}`;
  const ask = (body: object, signal?: AbortSignal): Promise<Response> =>
    fetchGateway(CHAT_PATH, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({
        model: OWN,
        max_tokens: 4,
        messages: [{ role: "user", content: "Hi" }],
        ...body,
      }),
      ...(signal !== undefined && { signal }),
    });
  const usage = async (): Promise<Record<string, unknown>> =>
    (await fetchGateway("/v1/usage", { headers: { authorization } })).json();
  // Its one place is taken.
  const left = new AbortController();
  await ask({ stream: true }, left.signal);
  return { own, cloud, ask, usage, leave: () => left.abort() };
}

test("what does not fit on one's own servers goes to a cloud API, and costs what that costs", async () => {
  const { own, cloud, ask, usage, leave } = await aGatewayWithOverflow();
  const response = await ask({});
  expect(response.status).toBe(200);
  expect(response.headers.get("x-sluice-degraded")).toBe(`fallback_model=${CLOUD}`);
  const [sent] = await cloud.requests();
  expect(JSON.parse(sent?.body ?? "{}")).toMatchObject({ model: "gpt-large" });
  expect(sent?.body).not.toContain("cache_salt");
  expect(await own.requests()).toHaveLength(1);
  // 12 tokens in, 3 out.
  await vi.waitFor(async () => expect(await usage()).toMatchObject({ spend: "0.000042" }), WAIT);
  leave();
});

test("and not beyond what its tenant may spend in a month", async () => {
  // Enough for what the first one might cost there, and not for two.
  const { own, cloud, ask, leave } = await aGatewayWithOverflow({ spendPerMonthMaxMicros: 80 });
  const response = await ask({});
  expect(response.status).toBe(429);
  expect(await response.json()).toMatchObject({ error: { code: "insufficient_quota" } });
  expect(await cloud.requests()).toEqual([]);
  expect(await own.requests()).toHaveLength(1);
  leave();
});
