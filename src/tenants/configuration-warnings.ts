import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, entriesOf, itemsOf, nameOf } from "./document-part.ts";
import { inherited } from "./inheritance.ts";
import type { DocumentPath } from "./references.ts";
import { formatPath } from "./references.ts";
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
  return [
    ...tenants.flatMap((tenant) => expiredKeys(tenant, nowMs)),
    ...vainContinuations(tenants, child(root, "defaults"), modelsOfOtherEngines(root)),
  ];
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

/** What many tenants have from `defaults` is told once, of all their models. */
function vainContinuations(
  tenants: readonly Part[],
  defaults: Part,
  vain: ReadonlySet<unknown>,
): ConfigurationProblem[] {
  const places = new Map<string, { readonly path: DocumentPath; readonly models: Set<unknown> }>();
  for (const tenant of tenants) {
    const { value, path } = inherited(tenant, defaults, "continuation");
    const models = itemsOf(inherited(tenant, defaults, "models")).map((model) => model.value);
    const inVain = value === true ? models.filter((model) => vain.has(model)) : [];
    if (inVain.length === 0) continue;
    const place = formatPath(path);
    const known = places.get(place)?.models ?? [];
    places.set(place, { path, models: new Set([...known, ...inVain]) });
  }
  return Array.from(places.values(), ({ path, models }) => ({
    path,
    message: `answers of ${[...models].join(", ")} do not go on elsewhere: only replicas of engine sluice can`,
  }));
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
