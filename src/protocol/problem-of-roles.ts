import type { ReplicaRole } from "./engine-api.ts";

/** Memory for KV that comes from the others, where roles are given and nothing is said of it. */
export const ROLES_KV_HOST_MIB = 64;

/** What engines of these roles lack together, as the end of a sentence that begins with `--roles`; undefined if nothing. */
export function problemOfRoles(roles: readonly ReplicaRole[]): string | undefined {
  if (roles.every((role) => role === "prefill")) {
    return "has nobody decode: expected decode or mixed";
  }
  if (roles.every((role) => role === "decode")) {
    return "has nobody compute prompts: expected prefill or mixed";
  }
  return undefined;
}
