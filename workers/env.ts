import type { DirectoryObject } from "./directory-object.ts";
import type { PoolObject } from "./pool-object.ts";
import type { TenantObject } from "./tenant-object.ts";
import type { TenantUsageLine } from "./usage-sinks.ts";

/** The Worker's bindings, as `wrangler.toml` names them; `settings.ts` checks the text ones. */
export interface Env {
  readonly POOLS: DurableObjectNamespace<PoolObject>;
  readonly TENANTS: DurableObjectNamespace<TenantObject>;
  readonly DIRECTORY: DurableObjectNamespace<DirectoryObject>;
  /** Told every counted request, where the operator has bound them. */
  readonly USAGE_QUEUE?: Queue<TenantUsageLine>;
  readonly USAGE_DB?: D1Database;
  readonly SLUICE_MODE?: string;
  readonly SLUICE_KEY_PEPPER?: string;
  readonly SLUICE_CACHE_MASTER?: string;
  readonly SLUICE_ADMIN_KEY?: string;
  readonly SLUICE_REPLICA_SECRET?: string;
}
