/**
 * What a key may be used for: `inference` to ask models, `usage` to see what its tenant uses, `admin` to run
 * the gateway, all tenants of it.
 */
export const KEY_SCOPES = ["inference", "usage", "admin"] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** Of a key of which nothing is said. */
export const DEFAULT_KEY_SCOPES: readonly KeyScope[] = ["inference", "usage"];
