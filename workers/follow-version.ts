import type { CacheGenerations } from "./cache-generations.ts";
import type { AppliedStage } from "./staged-change.ts";
import type { StoredAudit } from "./stored-audit.ts";
import type { StoredKeys } from "./stored-keys.ts";
import type { TenantLives } from "./tenant-lives.ts";

/** What is kept beside the configuration and depends on who is there. */
export interface Followers {
  readonly audit: StoredAudit;
  readonly lives: TenantLives;
  readonly keys: StoredKeys;
  readonly generations: CacheGenerations;
}

/**
 * Has what is no row of the configuration go along with a version, within its transaction: who is removed takes
 * along what was issued and what is cached, and nobody who gets the name later has any of it.
 */
export function followVersion(
  { record: { version, atMs, actor, action, reason }, stage, from }: AppliedStage,
  { audit, lives, keys, generations }: Followers,
): void {
  const subject = `version ${version}`;
  audit.add({ actor, action, subject, details: reason }, atMs);
  for (const tenantId of lives.follow(stage, version, from)) generations.raise(tenantId);
  const { departed, returned } = keys.follow(version);
  if (departed + returned > 0) {
    const details = `${departed} went with their tenants, ${returned} came back with them`;
    audit.add({ actor, action: "keys.follow", subject, details }, atMs);
  }
  lives.prune();
  keys.prune();
}
