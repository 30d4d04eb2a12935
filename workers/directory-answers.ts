import type { PoolId } from "../src/protocol/ids.ts";
import type { LivePool } from "../src/tenants/live-configuration.ts";
import type { ConfigurationUpload } from "./configuration-upload.ts";
import type { Applied } from "./staged-change.ts";

/** A way to send a configuration, unless there are as many on their way as there may be. */
export type UploadAnswer =
  | { readonly kind: "open"; readonly upload: ConfigurationUpload }
  | { readonly kind: "busy" };

/** What became of a wish to go back: there is such a version no more, or there never was. */
export type RolledBack = Applied | { readonly kind: "unknown-version" };

/** A pool's part of the configuration, and the version that brought it. */
export interface PoolAnswer {
  readonly version: number;
  readonly pool: LivePool;
}

export interface DirectorySummary {
  /** 0 until a configuration is applied. */
  readonly version: number;
  readonly poolIds: readonly PoolId[];
  readonly modelCount: number;
  readonly tenantCount: number;
  readonly keyCount: number;
}
