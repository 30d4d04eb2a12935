import type { Thing } from "../../src/tenants/configuration-rows.ts";
import { LiveKey, LiveModel, LivePool, LiveTenant } from "../../src/tenants/live-configuration.ts";

/** How many tenants a configuration has, and how many keys each of them. */
export interface ConfigurationSize {
  readonly tenantCount: number;
  readonly keysPerTenant: number;
}

/** The key number `key` of the tenant number `tenant`, in plain text. */
export function largeKey(tenant: number, key: number): string {
  return `sk-large-${tenant}-${key}`;
}

/** A configuration that is as large as asked, thing by thing: nobody needs to hold all of it. */
export function* largeConfiguration(
  { tenantCount, keysPerTenant }: ConfigurationSize,
  hashKey: (key: string) => string,
): Generator<Thing> {
  const modelIds = ["large", "small"];
  const endpointUrl = "http://127.0.0.1:9";
  const replicas = [{ replicaId: endpointUrl, endpointUrl }];
  yield {
    kind: "pool",
    thing: LivePool.parse({ poolId: "large", engine: "openai", replicas, queueMax: 64 }),
  };
  for (const modelId of modelIds) {
    const model = { modelId, poolId: "large", upstreamModel: modelId, contextTokens: 32_768 };
    yield { kind: "model", thing: LiveModel.parse(model) };
  }
  for (let tenant = 0; tenant < tenantCount; tenant += 1) {
    yield {
      kind: "tenant",
      thing: LiveTenant.parse({
        tenantId: `tenant-${tenant}`,
        modelIds,
        className: "interactive",
        targets: {
          ttft: { percentileRatio: 0.99, limitMs: 500 },
          tpot: { percentileRatio: 0.99, limitMs: 30 },
        },
        shares: [{ poolId: "large", weight: 1, guaranteedRatio: 0.9 / tenantCount, band: 0 }],
        concurrencyMax: 64,
        requestsPerMinuteMax: 1_200,
        tokensPerMinuteMax: 400_000 + tenant,
      }),
    };
    for (let key = 0; key < keysPerTenant; key += 1) {
      const hash = hashKey(largeKey(tenant, key));
      const named = { hash, tenantId: `tenant-${tenant}`, name: `key-${key}` };
      yield { kind: "key", thing: LiveKey.parse({ ...named, expiresAtMs: 2_900_000_000_000 }) };
    }
  }
}
