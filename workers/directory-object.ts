import { createHash } from "node:crypto";
import { DurableObject } from "cloudflare:workers";
import { LabelCounts } from "../src/base/label-counts.ts";
import type { MetricFamily, MetricName } from "../src/base/metric-text.ts";
import { metricFamily, NO_LABELS } from "../src/base/metric-text.ts";
import type { PoolId, TenantId } from "../src/protocol/ids.ts";
import type { LivePool, LiveTenant, TenantAccess } from "../src/tenants/live-configuration.ts";
import { CONFIGURATION_LIMITS, LiveConfiguration } from "../src/tenants/live-configuration.ts";
import { fallbackModelsOf } from "../src/tenants/overload-step.ts";
import { OTHER_REQUEST_LABELS, REQUEST_LABELS_MAX } from "../src/protocol/request-labels.ts";
import { CacheGenerations } from "./cache-generations.ts";
import type { Env } from "./env.ts";
import type { CountedRequests } from "./request-counts.ts";

/** The one object of its class: `env.DIRECTORY.getByName(DIRECTORY_NAME)`. */
export const DIRECTORY_NAME = "directory";

/** Raised when what is stored changes its shape. */
const FORMAT = 1;

const SCHEMA = `CREATE TABLE IF NOT EXISTS live_configuration (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  version INTEGER NOT NULL,
  format INTEGER NOT NULL,
  digest TEXT NOT NULL,
  document TEXT NOT NULL
)`;

const REQUESTS: MetricName = {
  name: "gw_requests_total",
  type: "counter",
  help: "Requests of all edges by route, status of the head and code of the failure",
};

const UNKNOWN_PARAMETERS: MetricName = {
  name: "gw_unknown_params_total",
  type: "counter",
  help: "Parameters of requests that the API does not have, and that replicas were given all the same",
};

export type Applied =
  | { readonly kind: "applied"; readonly version: number }
  | { readonly kind: "conflict"; readonly version: number };

export type KeyLookup =
  | { readonly kind: "known"; readonly access: TenantAccess }
  | { readonly kind: "unknown" }
  /** Nothing was ever applied, so no key can be called wrong. */
  | { readonly kind: "unconfigured" };

export interface DirectorySummary {
  /** 0 until a configuration is applied. */
  readonly version: number;
  readonly poolIds: readonly PoolId[];
  readonly modelCount: number;
  readonly tenantCount: number;
  readonly keyCount: number;
}

interface Directory {
  readonly version: number;
  readonly configuration: LiveConfiguration;
  readonly accessByKeyHash: ReadonlyMap<string, Omit<TenantAccess, "cacheGeneration">>;
}

type StoredRow = { version: number; format: number; digest: string; document: string };

/**
 * The single writer of the live configuration: it holds one version, replaces it whole, and answers
 * who a key belongs to. A stored document that is torn, or of another program, is never served: the
 * look-ups throw until a good one is applied.
 */
export class DirectoryObject extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #generations: CacheGenerations;
  readonly #requests = new LabelCounts(REQUEST_LABELS_MAX, OTHER_REQUEST_LABELS);
  #unknownParameters = 0;
  #directory: Directory | undefined;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#storage = state.storage;
    this.#storage.sql.exec(SCHEMA);
    this.#generations = new CacheGenerations(state.storage.sql);
  }

  /**
   * Replaces the configuration, unless `expectedVersion` is given and another one is live. Throws
   * when the document is not a valid configuration or too large; the old one then stays.
   */
  async apply(configuration: LiveConfiguration, expectedVersion?: number): Promise<Applied> {
    const document = JSON.stringify(LiveConfiguration.parse(configuration));
    const { bytesMax } = CONFIGURATION_LIMITS;
    if (new TextEncoder().encode(document).length > bytesMax) {
      throw new RangeError(`The configuration exceeds ${bytesMax} bytes`);
    }
    return this.#storage.transactionSync(() => {
      const liveVersion = this.#storedRow()?.version ?? 0;
      if (expectedVersion !== undefined && expectedVersion !== liveVersion) {
        return { kind: "conflict", version: liveVersion };
      }
      const version = liveVersion + 1;
      this.#storage.sql.exec(
        "INSERT OR REPLACE INTO live_configuration VALUES (1, ?, ?, ?, ?)",
        version,
        FORMAT,
        digestOf(version, document),
        document,
      );
      this.#directory = undefined;
      return { kind: "applied", version };
    });
  }

  /** Takes what an edge has counted of its requests since it sent last. Kept in memory, as of this life. */
  async countRequests({ requests, unknownParameters }: CountedRequests): Promise<void> {
    this.#requests.addAll(requests);
    this.#unknownParameters += unknownParameters;
  }

  /** Tells all edges' requests in numbers, for Prometheus. */
  async metrics(): Promise<MetricFamily[]> {
    const samples = this.#requests.list().map(([labels, value]) => ({ labels, value }));
    const unknown = [{ labels: NO_LABELS, value: this.#unknownParameters }];
    return [metricFamily(REQUESTS, samples), metricFamily(UNKNOWN_PARAMETERS, unknown)];
  }

  /** Tells whose key this is. Models, targets and limits come along, so that one call is enough. */
  async lookup(keyHash: string): Promise<KeyLookup> {
    const directory = this.#load();
    if (directory === undefined) return { kind: "unconfigured" };
    const access = directory.accessByKeyHash.get(keyHash);
    if (access === undefined) return { kind: "unknown" };
    const cacheGeneration = this.#generations.of(access.tenant.tenantId);
    return { kind: "known", access: { ...access, cacheGeneration } };
  }

  /**
   * Lets nothing be found any more that was cached for a tenant, as soon as edges ask again. Returns the
   * generation that begins, or `undefined` for a tenant that the configuration does not have.
   */
  async purgeCache(tenantId: TenantId): Promise<number | undefined> {
    return (await this.hasTenant(tenantId)) ? this.#generations.raise(tenantId) : undefined;
  }

  /** What a pool should consist of; undefined for a pool that the configuration does not have. */
  async poolConfiguration(
    poolId: PoolId,
  ): Promise<{ version: number; pool: LivePool } | undefined> {
    const directory = this.#load();
    const pool = directory?.configuration.pools.find((candidate) => candidate.poolId === poolId);
    if (directory === undefined || pool === undefined) return undefined;
    return { version: directory.version, pool };
  }

  async tenantOf(tenantId: TenantId): Promise<LiveTenant | undefined> {
    return this.#load()?.configuration.tenants.find((tenant) => tenant.tenantId === tenantId);
  }

  /** Tenants in order of their names, behind one of them. */
  async tenantsAfter(after: string, countMax: number): Promise<readonly LiveTenant[]> {
    const tenants = this.#load()?.configuration.tenants ?? [];
    return tenants
      .filter(({ tenantId }) => tenantId > after)
      .toSorted((a, b) => (a.tenantId < b.tenantId ? -1 : 1))
      .slice(0, countMax);
  }

  async hasTenant(tenantId: TenantId): Promise<boolean> {
    const tenants = this.#load()?.configuration.tenants ?? [];
    return tenants.some((tenant) => tenant.tenantId === tenantId);
  }

  async summary(): Promise<DirectorySummary> {
    const directory = this.#load();
    const configuration = directory?.configuration;
    return {
      version: directory?.version ?? 0,
      poolIds: configuration?.pools.map((pool) => pool.poolId) ?? [],
      modelCount: configuration?.models.length ?? 0,
      tenantCount: configuration?.tenants.length ?? 0,
      keyCount: configuration?.keys.length ?? 0,
    };
  }

  #load(): Directory | undefined {
    if (this.#directory !== undefined) return this.#directory;
    const row = this.#storedRow();
    if (row === undefined) return undefined;
    if (row.format !== FORMAT || row.digest !== digestOf(row.version, row.document)) {
      throw new Error(`The stored configuration ${row.version} is torn or of another program`);
    }
    const configuration = LiveConfiguration.parse(JSON.parse(row.document));
    this.#directory = {
      version: row.version,
      configuration,
      accessByKeyHash: accessByKeyHash(configuration, row.version),
    };
    return this.#directory;
  }

  #storedRow(): StoredRow | undefined {
    const [row] = this.#storage.sql
      .exec<StoredRow>("SELECT version, format, digest, document FROM live_configuration")
      .toArray();
    return row;
  }
}

// The version is part of it: a document under another version's number is torn as well.
function digestOf(version: number, document: string): string {
  return createHash("sha256").update(`${version}\n${document}`).digest("hex");
}

function accessByKeyHash(
  configuration: LiveConfiguration,
  configurationVersion: number,
): Directory["accessByKeyHash"] {
  const tenants = new Map(configuration.tenants.map((tenant) => [tenant.tenantId, tenant]));
  const models = new Map(configuration.models.map((model) => [model.modelId, model]));
  return new Map(
    configuration.keys.flatMap(({ hash, tenantId, name, ...validity }) => {
      const tenant = tenants.get(tenantId);
      if (tenant === undefined) return [];
      const access = {
        tenant,
        keyName: name,
        keyHash: hash,
        models: tenant.modelIds.flatMap((modelId) => models.get(modelId) ?? []),
        fallbackModels: fallbackModelsOf(tenant.overload).flatMap(
          (modelId) => models.get(modelId) ?? [],
        ),
        ...validity,
        configurationVersion,
      };
      return [[hash, access] as const];
    }),
  );
}
