import { DurableObject } from "cloudflare:workers";
import type { MetricFamily } from "../src/base/metric-text.ts";
import type { PoolId, TenantId } from "../src/protocol/ids.ts";
import type { LiveTenant } from "../src/tenants/live-configuration.ts";
import type { ConfigurationChanges } from "../src/tenants/configuration-changes.ts";
import type { LiveJwtIssuer } from "../src/tenants/jwt-issuer.ts";
import type { KeyPermissions } from "../src/tenants/live-configuration.ts";
import type { TenantChange, TenantVerdict } from "./change-tenant.ts";
import { changeTenant } from "./change-tenant.ts";
import type { Desk, KeyPlace, KeyVerdict } from "./key-desk.ts";
import { issueKey, revokeKey, rotateKey } from "./key-desk.ts";
import type { AuditEntry, Deed } from "./stored-audit.ts";
import { StoredAudit } from "./stored-audit.ts";
import type { KeyRecord } from "./stored-keys.ts";
import { StoredKeys } from "./stored-keys.ts";
import { ConfigurationUpload } from "./configuration-upload.ts";
import type {
  DirectorySummary,
  PoolAnswer,
  RolledBack,
  UploadAnswer,
} from "./directory-answers.ts";
import { CacheGenerations } from "./cache-generations.ts";
import { EdgeCounts } from "./edge-counts.ts";
import type { Env } from "./env.ts";
import type { Followers } from "./follow-version.ts";
import { followVersion } from "./follow-version.ts";
import type { FoundAccess, KeyLookup } from "./stored-access.ts";
import { accessOfTenant, findAccess } from "./stored-access.ts";
import { compareVersions } from "./stored-changes.ts";
import type { Frame } from "./stored-configuration.ts";
import { StoredConfiguration } from "./stored-configuration.ts";
import type { CommitWish } from "./staged-change.ts";
import type { VersionRecord } from "./stored-versions.ts";
import { clearStages, StagedChange } from "./staged-change.ts";
import { TenantLives } from "./tenant-lives.ts";
import type { CountedRequests } from "./request-counts.ts";

/** The one object of its class: `env.DIRECTORY.getByName(DIRECTORY_NAME)`. */
export const DIRECTORY_NAME = "directory";

/** Configurations that may be on their way at once, and what is told to whoever comes then. */
const UPLOADS_MAX = 4;

/**
 * The single writer of the live configuration: it keeps each version as what it changed, makes one live in
 * a single transaction, and answers who a key belongs to by one look-up. What is stored torn, or by another
 * program, is never served: the look-ups throw until a good configuration is applied.
 */
export class DirectoryObject extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #stored: StoredConfiguration;
  readonly #beside: Followers;
  readonly #counts = new EdgeCounts();
  /** Another one for whatever is written that a look-up could tell of, and in each life. */
  #state = crypto.randomUUID();
  #uploads = 0;
  #lastStage = 0;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#storage = state.storage;
    this.#stored = new StoredConfiguration(state.storage.sql);
    this.#beside = {
      audit: new StoredAudit(state.storage.sql),
      lives: new TenantLives(state.storage.sql),
      keys: new StoredKeys(state.storage.sql),
      generations: new CacheGenerations(state.storage.sql),
    };
    clearStages(state.storage.sql);
  }

  /** Lets a whole configuration be sent, which replaces the live one when it is committed. */
  async upload(): Promise<UploadAnswer> {
    if (this.#uploads >= UPLOADS_MAX) return { kind: "busy" };
    this.#uploads += 1;
    const onEnd = (): void => {
      this.#uploads -= 1;
    };
    return { kind: "open", upload: new ConfigurationUpload({ stage: this.#stage(true), onEnd }) };
  }

  /** Makes a former version live again, under a new number. */
  async rollBack(version: number, wish: Omit<CommitWish, "action">): Promise<RolledBack> {
    if (this.#stored.versions.find(version) === undefined) return { kind: "unknown-version" };
    const stage = this.#stage(true);
    try {
      stage.addVersion(version);
      return stage.commit({ ...wish, action: `rollback to ${version}` }, Date.now());
    } finally {
      stage.discard();
    }
  }

  /** Lists versions, newest first, those before one. */
  async history(before: number, countMax: number): Promise<VersionRecord[]> {
    return this.#stored.versions.list(before, countMax);
  }

  /** Tells what differs between two versions; undefined when one of them is not kept. */
  async compare(
    versions: { readonly from: number; readonly to: number },
    countMax: number,
  ): Promise<ConfigurationChanges | undefined> {
    const known = [versions.from, versions.to].map((version) =>
      this.#stored.versions.find(version),
    );
    if (known.includes(undefined)) return undefined;
    return compareVersions(this.#storage.sql, versions, countMax);
  }

  /** Adds, changes or removes one tenant, which makes a version. */
  async changeTenant(
    change: TenantChange,
    wish: Omit<CommitWish, "action">,
  ): Promise<TenantVerdict> {
    const stage = this.#stage(false);
    try {
      return changeTenant(change, { configuration: this.#stored, stage }, wish, Date.now());
    } finally {
      stage.discard();
    }
  }

  /** Lists tenants by name, those behind `after`. */
  async tenants(after: string, countMax: number): Promise<LiveTenant[]> {
    return this.#stored.tenants(after, countMax);
  }

  tenant(tenantId: TenantId): LiveTenant | undefined {
    this.#stored.frame();
    const entry = this.#stored.find("tenant", tenantId)?.entry;
    return entry?.kind === "tenant" ? entry.thing : undefined;
  }

  /** Issues a key to a tenant. */
  async issueKey(
    place: Omit<KeyPlace, "nowMs"> & { readonly hash: string },
    permissions: KeyPermissions,
  ): Promise<KeyVerdict> {
    return this.#atDesk("key.create", place, (desk, dated) =>
      issueKey(desk, { ...dated, hash: place.hash }, permissions),
    );
  }

  /** Issues a key in the place of another one, which ends `overlapMs` later. */
  async rotateKey(
    place: Omit<KeyPlace, "nowMs">,
    successor: Parameters<typeof rotateKey>[2],
  ): Promise<KeyVerdict> {
    return this.#atDesk("key.rotate", place, (desk, dated) => rotateKey(desk, dated, successor));
  }

  /** Ends a key at once and for good. */
  async revokeKey(place: Omit<KeyPlace, "nowMs">): Promise<KeyVerdict> {
    return this.#atDesk("key.revoke", place, revokeKey);
  }

  /** Lists a tenant's keys by name, those behind `after`; undefined for a tenant that is not there. */
  async listKeys(
    tenantId: TenantId,
    after: string,
    countMax: number,
  ): Promise<KeyRecord[] | undefined> {
    if (!(await this.hasTenant(tenantId))) return undefined;
    return this.#beside.keys.list(tenantId, after, countMax, Date.now());
  }

  /** Lists what was done by the admin API, newest first, those deeds before one. */
  async audit(before: number, countMax: number): Promise<AuditEntry[]> {
    return this.#beside.audit.list(before, countMax);
  }

  /** Takes what an edge has counted of its requests since it sent last. Kept in memory, as of this life. */
  async countRequests(counted: CountedRequests): Promise<void> {
    this.#counts.add(counted);
    this.#beside.keys.noteUses(counted.usedKeys, Date.now());
  }

  /** Tells all edges' requests in numbers, for Prometheus. */
  async metrics(): Promise<MetricFamily[]> {
    return this.#counts.families();
  }

  /**
   * Tells whose key this is. Models, targets and limits come along, so that one call is enough; to whom was told
   * the same in `knownState`, that it has not changed.
   */
  async lookup(keyHash: string, knownState?: string): Promise<KeyLookup> {
    return this.#tell(knownState, (frame) => findAccess(this.#storage.sql, frame, keyHash));
  }

  /** Writes down a deed that somebody had another object do. */
  async note(deed: Deed): Promise<void> {
    this.#beside.audit.add(deed, Date.now());
  }

  /** Begins a new generation of what is cached for a tenant; `undefined` for one that is not there. */
  async purgeCache(tenantId: TenantId, actor: string): Promise<number | undefined> {
    if (!(await this.hasTenant(tenantId))) return undefined;
    this.#state = crypto.randomUUID();
    const deed = { actor, action: "cache.purge", subject: tenantId, details: "" };
    this.#beside.audit.add(deed, Date.now());
    return this.#beside.generations.raise(tenantId);
  }

  /** Tells of a tenant by its name what `lookup` tells of one by its key: for who is vouched for otherwise. */
  async lookupTenant(tenantId: TenantId, knownState?: string): Promise<KeyLookup> {
    return this.#tell(knownState, (frame) => {
      const tenant = this.tenant(tenantId);
      return tenant && accessOfTenant(frame, tenant);
    });
  }

  /** Whose tokens stand for a tenant. */
  async jwtIssuers(): Promise<readonly LiveJwtIssuer[]> {
    return this.#stored.frame()?.settings.jwtIssuers ?? [];
  }

  /** What a pool should consist of; undefined for a pool that the configuration does not have. */
  async poolConfiguration(poolId: PoolId): Promise<PoolAnswer | undefined> {
    this.#stored.frame();
    const found = this.#stored.find("pool", poolId);
    if (found?.entry.kind !== "pool") return undefined;
    return { version: found.sinceVersion, pool: found.entry.thing };
  }

  async hasTenant(tenantId: TenantId): Promise<boolean> {
    this.#stored.frame();
    return this.#stored.has("tenant", tenantId);
  }

  async summary(): Promise<DirectorySummary> {
    const frame = this.#stored.frame();
    return {
      version: frame?.version ?? 0,
      poolIds: frame?.poolIds ?? [],
      modelCount: frame?.counts.model ?? 0,
      tenantCount: frame?.counts.tenant ?? 0,
      keyCount: frame?.counts.key ?? 0,
    };
  }

  #tell(
    knownState: string | undefined,
    find: (frame: Frame) => FoundAccess | undefined,
  ): KeyLookup {
    if (knownState === this.#state) return { kind: "unchanged" };
    const frame = this.#stored.frame();
    if (frame === undefined) return { kind: "unconfigured" };
    const found = find(frame);
    if (found === undefined) return { kind: "unknown" };
    const cacheGeneration = this.#beside.generations.of(found.tenant.tenantId);
    return { kind: "known", access: { ...found, cacheGeneration, directoryState: this.#state } };
  }

  /** Does something about a key, and writes it down with it. */
  #atDesk(
    action: string,
    place: Omit<KeyPlace, "nowMs">,
    act: (desk: Desk, dated: KeyPlace) => KeyVerdict,
  ): KeyVerdict {
    this.#stored.frame();
    this.#state = crypto.randomUUID();
    return this.#storage.transactionSync(() => {
      const nowMs = Date.now();
      const desk = { configuration: this.#stored, keys: this.#beside.keys };
      const verdict = act(desk, { ...place, nowMs });
      if (verdict.kind === "done") {
        const { tenantId, name, actor } = place;
        const details = verdict.key.name === name ? "" : `new key ${verdict.key.name}`;
        this.#beside.audit.add({ actor, action, subject: `${tenantId}/${name}`, details }, nowMs);
      }
      return verdict;
    });
  }

  #stage(isWhole: boolean): StagedChange {
    this.#lastStage += 1;
    return new StagedChange(this.#storage, this.#stored, {
      stage: this.#lastStage,
      isWhole,
      isOtherThan: (version) => this.#beside.lives.differFrom(version),
      onApplied: (applied) => {
        this.#state = crypto.randomUUID();
        followVersion(applied, this.#beside);
      },
    });
  }
}
