import type { ReplicaRole } from "../../src/protocol/engine-api.ts";
import { problemOfRoles } from "../../src/protocol/problem-of-roles.ts";
import type { EnginePlan } from "./stack-plan.ts";

/**
 * Gives each engine of the one local pool its role, in the order of their URLs. Returns a sentence instead where
 * those could not work together.
 */
export function assignRoles(
  engines: readonly EnginePlan[],
  roles: readonly ReplicaRole[] | undefined,
):
  | { readonly kind: "ok"; readonly engines: readonly EnginePlan[] }
  | { readonly kind: "invalid"; readonly problem: string } {
  if (roles === undefined) return { kind: "ok", engines };
  const pools = new Set(engines.map(({ poolId }) => poolId));
  const problem =
    pools.size === 1 ? problemOf(roles, engines.length) : "needs exactly one pool with engines";
  if (problem !== undefined) return { kind: "invalid", problem: `--roles ${problem}` };
  return {
    kind: "ok",
    engines: engines.map((engine, index) => ({ ...engine, role: roles[index] ?? "mixed" })),
  };
}

function problemOf(roles: readonly ReplicaRole[], engineCount: number): string | undefined {
  if (roles.length !== engineCount) {
    return `names ${roles.length} roles, and there are ${engineCount} engines`;
  }
  return problemOfRoles(roles);
}
