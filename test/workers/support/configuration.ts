import { createHmac } from "node:crypto";
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { thingsOf } from "../../../src/tenants/configuration-rows.ts";
import type {
  LiveKey,
  LiveModel,
  LivePool,
  LiveReplica,
  LiveTenant,
} from "../../../src/tenants/live-configuration.ts";
import { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";
import { orRefuse, uploadConfiguration } from "../../../workers/apply-configuration.ts";
import { DIRECTORY_NAME } from "../../../workers/directory-object.ts";
import type { Applied } from "../../../workers/staged-change.ts";
import { settingsOf } from "../../../workers/settings.ts";

/** What a test says about its configuration; everything else has a sensible value. */
export interface ConfigurationWish {
  readonly endpointUrls?: readonly string[];
  /** What is particular about each replica. */
  readonly replicas?: readonly Partial<LiveReplica>[];
  readonly pool?: Partial<LivePool>;
  readonly model?: Partial<LiveModel>;
  /** Models beside that one, of the same pool unless they say otherwise. */
  readonly furtherModels?: readonly Partial<LiveModel>[];
  /** What is particular about each tenant; one tenant when absent. */
  readonly tenants?: readonly Partial<LiveTenant>[];
  readonly keys?: readonly KeyWish[];
}

/** An API key in the clear and what is particular about it. */
export interface KeyWish extends Partial<Omit<LiveKey, "hash">> {
  readonly key: string;
}

/** The key of the tenant that a configuration has when a test does not name any. */
export const TEST_KEY = "sk-test-tenant-a";

/** Hashes a key as the Worker under test does. */
export function hashOfKey(key: string): string {
  return createHmac("sha256", settingsOf(env).keyPepper).update(key).digest("hex");
}

/** Builds a valid configuration: pool `local`, model `sluice-tiny`, tenant `tenant-a`. */
export function aLiveConfiguration(wish: ConfigurationWish = {}): LiveConfiguration {
  const endpointUrls = wish.endpointUrls ?? ["http://127.0.0.1:9101"];
  const tenants = wish.tenants ?? [{}];
  const keys = wish.keys ?? [{ key: TEST_KEY }];
  return LiveConfiguration.parse({
    models: [
      {
        modelId: "sluice-tiny",
        poolId: "local",
        upstreamModel: "sluice-tiny",
        contextTokens: 2048,
        ...wish.model,
      },
      ...(wish.furtherModels ?? []).map((model) => ({
        poolId: "local",
        upstreamModel: "other-upstream",
        contextTokens: 2048,
        ...model,
      })),
    ],
    pools: [
      {
        poolId: "local",
        engine: "sluice",
        replicas: endpointUrls.map((endpointUrl, index) => ({
          replicaId: endpointUrl,
          endpointUrl,
          ...wish.replicas?.[index],
        })),
        queueMax: 64,
        ...wish.pool,
      },
    ],
    tenants: tenants.map((tenant) => ({
      tenantId: "tenant-a",
      modelIds: ["sluice-tiny"],
      className: "standard",
      targets: {
        ttft: { percentileRatio: 0.99, limitMs: 5000 },
        tpot: { percentileRatio: 0.99, limitMs: 1000 },
      },
      ...tenant,
    })),
    keys: keys.map(({ key, ...rest }, index) => ({
      hash: hashOfKey(key),
      tenantId: "tenant-a",
      name: `key-${index + 1}`,
      ...rest,
    })),
  });
}

/** Makes a configuration live in the Worker under test and returns its version. */
export async function applyConfiguration(configuration: LiveConfiguration): Promise<number> {
  return orRefuse(await tryConfiguration(configuration)).version;
}

/** Has a configuration applied, and tells what came of it. */
export async function tryConfiguration(
  configuration: LiveConfiguration,
  expectedVersion?: number,
): Promise<Applied> {
  const wish = { actor: "test", action: "apply", reason: "" };
  return uploadConfiguration(thingsOf(configuration), env, (upload) =>
    upload.commit({ ...wish, ...(expectedVersion !== undefined && { expectedVersion }) }),
  );
}

/** Changes what is stored behind the Directory's back and makes it forget what it had loaded. */
export async function tearDirectory(
  statement = "UPDATE versions SET digest = 'torn'",
): Promise<void> {
  await runInDurableObject(env.DIRECTORY.getByName(DIRECTORY_NAME), (_object, state) => {
    state.storage.sql.exec(statement);
  });
  await abortAllDurableObjects();
}
