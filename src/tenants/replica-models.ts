import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, itemsOf, nameOf } from "./document-part.ts";
import { repeats, unresolved } from "./reference-checks.ts";

/** What is wrong with the models that replicas are said to have: none of their pool's, or one that nobody has. */
export function findReplicaModelProblems(
  pools: readonly Part[],
  models: readonly Part[],
): ConfigurationProblem[] {
  return pools.flatMap((pool) => {
    const own = models.filter((model) => child(model, "pool").value === nameOf(pool));
    const lists = itemsOf(child(pool, "replicas")).map((replica) => child(replica, "models"));
    const names = own.map(nameOf);
    return [
      ...lists.flatMap((list) => unresolved("model of its pool", itemsOf(list), names)),
      ...lists.flatMap((list) => repeats(itemsOf(list))),
      ...unserved(own, lists),
    ];
  });
}

function unserved(own: readonly Part[], lists: readonly Part[]): ConfigurationProblem[] {
  if (lists.length === 0 || lists.some(({ value }) => value === undefined)) return [];
  const served = new Set(lists.flatMap(itemsOf).map(({ value }) => value));
  return own
    .filter((model) => !served.has(nameOf(model)))
    .map((model) => ({
      path: child(model, "pool").path,
      message: "expected a pool of which a replica lists this model among its own, found none",
    }));
}
