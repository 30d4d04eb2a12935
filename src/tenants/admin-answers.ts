import * as z from "zod";

const Count = z.int().min(0);
const Instant = z.number();

/** How many things became what. */
const ChangeCounts = z.object({ added: Count, changed: Count, removed: Count });

/** A version that is live, and what made it so. */
export const Applied = z.object({
  version: Count,
  /** False where what was applied was live already. */
  isChanged: z.boolean(),
  /** Absent where nothing changed. */
  changes: ChangeCounts.optional(),
});
export type Applied = z.infer<typeof Applied>;

/** The same for a change of one tenant. */
export const TenantApplied = Applied.extend({ tenantId: z.string() });

/** What differs between two configurations; the list may be the beginning of it, what goes is told first. */
export const Changes = z.object({
  /** The versions that were compared. */
  from: Count.optional(),
  to: Count.optional(),
  /** Of a configuration that is not applied yet: the live one that it was compared with. */
  version: Count.optional(),
  counts: ChangeCounts,
  changes: z.array(
    z.object({
      kind: z.enum(["settings", "pool", "model", "tenant", "key"]),
      /** Of a key `tenant/name`. */
      name: z.string(),
      change: z.enum(["added", "changed", "removed"]),
      fields: z
        .array(
          z.object({
            path: z.string(),
            /** As JSON; absent: there was none. */
            before: z.string().optional(),
            after: z.string().optional(),
          }),
        )
        .optional(),
      /** Of a tenant that goes: keys that were issued to it, which go with it. */
      issuedKeys: Count.optional(),
    }),
  ),
  /** Of a configuration that is not applied yet: what keeps it from going live. */
  problems: z.array(z.string()).optional(),
});
export type Changes = z.infer<typeof Changes>;

export const VersionList = z.object({
  versions: z.array(
    z.object({
      version: Count,
      atMs: Instant,
      actor: z.string(),
      action: z.string(),
      reason: z.string(),
      counts: z.record(z.string(), Count),
      changes: ChangeCounts,
    }),
  ),
});

/** What a tenant is, with all that follows from what was said of it. */
const Tenant = z.looseObject({
  tenantId: z.string(),
  className: z.string(),
  modelIds: z.array(z.string()),
  concurrencyMax: z.number().optional(),
  requestsPerMinuteMax: z.number().optional(),
  tokensPerMinuteMax: z.number().optional(),
});
export const TenantList = z.object({ tenants: z.array(Tenant) });
export const OneTenant = z.object({ tenant: Tenant });

const KeyRecord = z.object({
  name: z.string(),
  source: z.enum(["file", "issued"]),
  scopes: z.array(z.string()),
  modelIds: z.array(z.string()).optional(),
  classNames: z.array(z.string()).optional(),
  notBeforeAtMs: Instant.optional(),
  expiresAtMs: Instant.optional(),
  createdAtMs: Instant.optional(),
  createdBy: z.string().optional(),
  /** To some minutes. */
  lastUsedAtMs: Instant.optional(),
});
export const KeyList = z.object({ keys: z.array(KeyRecord) });
export const OneKey = z.object({ key: KeyRecord });
/** The one answer with a key in plain text. */
export const NewKey = z.object({ apiKey: z.string(), key: KeyRecord });

/** What a tenant has used; amounts of money are decimals in a text. */
export const UsageSummary = z.object({
  tenantId: z.string(),
  openRequests: Count,
  month: z.object({
    month: z.string(),
    tokens: Count,
    reservedTokens: Count,
    spend: z.string(),
    reservedSpend: z.string(),
  }),
  keys: z.array(
    z.object({
      name: z.string(),
      requests: Count,
      promptTokens: Count,
      cachedTokens: Count,
      outputTokens: Count,
      estimatedRequests: Count,
      spend: z.string(),
    }),
  ),
});

export const AuditList = z.object({
  entries: z.array(
    z.object({
      number: Count,
      atMs: Instant,
      actor: z.string(),
      action: z.string(),
      subject: z.string(),
      details: z.string(),
    }),
  ),
});

export const Purged = z.object({ generation: z.int() });

export const PoolClosed = z.object({ poolId: z.string(), isClosed: z.boolean() });

export const ReplicaDrained = z.object({
  poolId: z.string(),
  replicaId: z.string(),
  isDrained: z.boolean(),
});
