import { describe, expect, test } from "vitest";
import { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";

const replica = (url: string) => ({ replicaId: url, endpointUrl: url });
const key = (hash: string, tenantId = "acme") => ({
  hash: hash.repeat(64),
  tenantId,
  name: "prod",
});

const WHOLE = {
  models: [{ modelId: "tiny", poolId: "local", upstreamModel: "tiny", contextTokens: 2048 }],
  pools: [
    { poolId: "local", engine: "sluice", replicas: [replica("http://a:1")], queueMax: 8 },
    { poolId: "other", engine: "sluice", replicas: [replica("http://b:1")], queueMax: 8 },
  ],
  tenants: [{ tenantId: "acme", modelIds: ["tiny"], className: "chat", targets: {} }],
  keys: [key("a")],
};

const share = (poolId: string, guaranteedRatio = 0) => ({
  poolId,
  weight: 1,
  guaranteedRatio,
  band: 0,
});

const limit = (modelId: string) => ({ modelId, requestsMax: 1 });

function issuesOf(configuration: unknown): string[] {
  const parsed = LiveConfiguration.safeParse(configuration);
  return (parsed.error?.issues ?? []).map((issue) => `${issue.path.join(".")} ${issue.message}`);
}

describe("LiveConfiguration", () => {
  test("accepts what is whole", () => {
    expect(issuesOf(WHOLE)).toEqual([]);
  });

  test.each([
    ["models.0.poolId", { models: [{ ...WHOLE.models[0], poolId: "gone" }] }],
    ["tenants.0.modelIds.1", { tenants: [{ ...WHOLE.tenants[0], modelIds: ["tiny", "gone"] }] }],
    ["tenants.0.shares.0", { tenants: [{ ...WHOLE.tenants[0], shares: [share("gone")] }] }],
    ["keys.0.tenantId", { keys: [key("a", "gone")] }],
  ])("refuses %s that names something that does not exist", (path, change) => {
    expect(issuesOf({ ...WHOLE, ...change })).toEqual([
      `${path} the name of something that exists`,
    ]);
  });

  test.each([
    ["models.1", { models: [WHOLE.models[0], WHOLE.models[0]] }],
    ["tenants.1", { tenants: [WHOLE.tenants[0], WHOLE.tenants[0]] }],
    ["keys.1", { keys: [key("a"), key("a")] }],
    ["tenants.0.modelIds.1", { tenants: [{ ...WHOLE.tenants[0], modelIds: ["tiny", "tiny"] }] }],
    [
      "tenants.0.shares.1",
      { tenants: [{ ...WHOLE.tenants[0], shares: [share("local"), share("local")] }] },
    ],
    ["pools.2", { pools: [...WHOLE.pools, { ...WHOLE.pools[0], replicas: [] }] }],
    [
      "pools.1.replicas.0",
      { pools: [WHOLE.pools[0], { ...WHOLE.pools[1], replicas: [replica("http://a:1")] }] },
    ],
  ])("refuses %s that is there twice", (path, change) => {
    expect(issuesOf({ ...WHOLE, ...change })).toEqual([`${path} there only once`]);
  });

  test("refuses an endpoint in any spelling but its one", () => {
    const pools = [{ ...WHOLE.pools[0], replicas: [replica("http://a:1/")] }];
    expect(issuesOf({ ...WHOLE, pools })).toHaveLength(1);
  });

  test("refuses a member that it does not know", () => {
    expect(issuesOf({ ...WHOLE, colours: [] })).toHaveLength(1);
  });

  test("refuses a model without a price where the tenant's spend is limited, and only there", () => {
    const price = {
      inputPicosPerToken: 0,
      cachedInputPicosPerToken: 0,
      outputPicosPerToken: 600_000,
    };
    const tenants = [{ ...WHOLE.tenants[0], spendPerMonthMaxMicros: 1 }];
    expect(issuesOf({ ...WHOLE, tenants })).toEqual(["tenants.0.modelIds.0 a model with a price"]);
    const models = [{ ...WHOLE.models[0], price }];
    expect(issuesOf({ ...WHOLE, tenants, models })).toEqual([]);
    const [broken] = [{ ...price, outputPicosPerToken: 0.5 }];
    expect(issuesOf({ ...WHOLE, models: [{ ...WHOLE.models[0], price: broken }] })).toHaveLength(1);
  });

  test("refuses a tenant that is named as a shard of another one", () => {
    const tenants = [{ ...WHOLE.tenants[0], tenantId: "acme/1" }];
    expect(issuesOf({ ...WHOLE, tenants, keys: [] })).toEqual([
      "tenants.0.tenantId a name without a stroke",
    ]);
  });

  test("refuses a limit on a model of another pool, and a second one on the same model", () => {
    const limited = (poolIndex: number, ...modelLimits: object[]) =>
      WHOLE.pools.map((pool, index) => (index === poolIndex ? { ...pool, modelLimits } : pool));
    expect(issuesOf({ ...WHOLE, pools: limited(0, limit("tiny")) })).toEqual([]);
    expect(issuesOf({ ...WHOLE, pools: limited(1, limit("tiny")) })).toEqual([
      "pools.1.modelLimits.0.modelId a model of its pool",
    ]);
    expect(issuesOf({ ...WHOLE, pools: limited(0, limit("tiny"), limit("tiny")) })).toEqual([
      "pools.0.modelLimits.1.modelId there only once",
    ]);
  });

  test("refuses a replica that is said to have a model of another pool", () => {
    const [first, second] = WHOLE.pools;
    const [model] = WHOLE.models;
    const replicas = [
      { replicaId: "http://r-1", endpointUrl: "http://r-1", models: [model?.upstreamModel] },
    ];
    expect(issuesOf({ ...WHOLE, pools: [{ ...first, replicas }, second] })).toEqual([]);
    expect(issuesOf({ ...WHOLE, pools: [first, { ...second, replicas }] })).toEqual([
      "pools.1.replicas.0.models.0 a model of its pool",
    ]);
  });

  test("no secret of the gateway itself is named for the servers of a pool", () => {
    const [pool] = WHOLE.pools;
    const named = (secretName: string) =>
      issuesOf({ ...WHOLE, pools: [{ ...pool, secretName }, WHOLE.pools[1]] });
    expect(named("GPU_POOL_TOKEN")).toEqual([]);
    expect(named("SLUICE_ADMIN_KEY")).toEqual(["pools.0.secretName the name of a secret"]);
  });

  test("one that was stored before there were timeouts, limits of models or other engines still loads", () => {
    const { pools, tenants } = LiveConfiguration.parse(WHOLE);
    expect(pools[0]).toEqual({ ...WHOLE.pools[0] });
    expect(tenants[0]).toEqual({ ...WHOLE.tenants[0], shares: [] });
  });

  test("a tenant of which no share is known has none", () => {
    expect(LiveConfiguration.parse(WHOLE).tenants).toMatchObject([{ shares: [] }]);
  });

  test("refuses the share with which more of a pool is guaranteed than can be kept", () => {
    const [acme] = WHOLE.tenants;
    const tenants = [
      { ...acme, shares: [share("local", 0.5), share("other", 0.9)] },
      { ...acme, tenantId: "beta", shares: [share("local", 0.4)] },
    ];
    expect(issuesOf({ ...WHOLE, tenants })).toEqual([]);
    const gamma = { ...acme, tenantId: "gamma", shares: [share("local", 0.001)] };
    expect(issuesOf({ ...WHOLE, tenants: [...tenants, gamma] })).toEqual([
      "tenants.2.shares.0.guaranteedRatio within what can be guaranteed of its pool",
    ]);
  });
});
