import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, entriesOf, itemsOf, nameOf } from "./document-part.ts";
import { inherited } from "./inheritance.ts";
import { parseDateAtMs } from "./units.ts";

/**
 * Finds what is allowed and still probably not meant: keys that no gateway takes any more, and answers that are
 * to go on where no server can go on with them. It reads the document as it is written, so that this is told
 * along with what is wrong.
 */
export function findConfigurationWarnings(
  document: unknown,
  nowMs: number,
): readonly ConfigurationProblem[] {
  const root = { value: document, path: [] };
  const tenants = entriesOf(child(root, "tenants"));
  const vain = modelsOfOtherEngines(root);
  return tenants.flatMap((tenant) => [
    ...expiredKeys(tenant, nowMs),
    ...vainContinuation(tenant, child(root, "defaults"), vain),
  ]);
}

function expiredKeys(tenant: Part, nowMs: number): ConfigurationProblem[] {
  return itemsOf(child(tenant, "keys")).flatMap((key) => {
    const { value, path } = child(key, "expires");
    const expiresAtMs = typeof value === "string" ? parseDateAtMs(value) : undefined;
    if (expiresAtMs === undefined || nowMs < expiresAtMs) return [];
    const message = "this key has expired already, so requests with it are refused";
    return [{ path, message }];
  });
}

function vainContinuation(
  tenant: Part,
  defaults: Part,
  vain: ReadonlySet<unknown>,
): ConfigurationProblem[] {
  const { value, path } = inherited(tenant, defaults, "continuation");
  const models = itemsOf(inherited(tenant, defaults, "models")).map((model) => model.value);
  const inVain = models.filter((model) => vain.has(model));
  if (value !== true || inVain.length === 0) return [];
  const message = `answers of ${inVain.join(", ")} do not go on elsewhere: only replicas of engine sluice can`;
  return [{ path, message }];
}

/** Models of whose pools no replica is ours. */
function modelsOfOtherEngines(root: Part): ReadonlySet<unknown> {
  const foreign = entriesOf(child(root, "pools")).filter((pool) => {
    const kinds = itemsOf(child(pool, "replicas")).map(
      (replica) => child(replica, "engine").value ?? child(pool, "engine").value,
    );
    return kinds.length > 0 && !kinds.includes("sluice");
  });
  const pools = new Set<unknown>(foreign.map(nameOf));
  const models = entriesOf(child(root, "models"));
  return new Set(models.filter((model) => pools.has(child(model, "pool").value)).map(nameOf));
}
