import type { KeyScope } from "./key-scope.ts";
import type { LiveModel, LiveTenant } from "./live-configuration.ts";

/** Everything the edge needs to serve one key; the Directory answers a look-up with it. */
export interface TenantAccess {
  readonly tenant: LiveTenant;
  readonly keyName: string;
  /** The hash under which the key was found, so that the asker can compare it in constant time. */
  readonly keyHash: string;
  /** What the key may be used for. */
  readonly scopes: readonly KeyScope[];
  /** Of what is cached for the tenant: what was cached in an earlier one is not found any more. */
  readonly cacheGeneration: number;
  /** The tenant's models that the key may use, in the tenant's order. */
  readonly models: readonly LiveModel[];
  /** What its overload ladder may ask instead of one of them. */
  readonly fallbackModels: readonly LiveModel[];
  /** The classes that the key may use; absent: all of its tenant's. */
  readonly classNames?: readonly string[];
  readonly notBeforeAtMs?: number;
  readonly expiresAtMs?: number;
  readonly configurationVersion: number;
  /** Names what the Directory held when it said this: while it still does, it need not say it again. */
  readonly directoryState: string;
}
