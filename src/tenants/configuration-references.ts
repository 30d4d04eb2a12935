import { canTakePriorities, ENGINES, PRIORITY_ENGINES } from "../protocol/engine-kind.ts";
import { BUILT_IN_CLASSES } from "../slo/targets.ts";
import { parseApiKey, parseKeyHash } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import { normalizeApiUrl, normalizeEndpointUrl } from "./endpoint-url.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import type { Part } from "./document-part.ts";
import { child, childrenOf, entriesOf, itemsOf, nameOf } from "./document-part.ts";
import { findOvercommittedPools } from "./guarantees.ts";
import { isMapping } from "./notation.ts";
import { parseMicros } from "./money.ts";
import { inherited } from "./inheritance.ts";
import { findReplicaModelProblems } from "./replica-models.ts";
import { mentionsOf, repeats, unresolved } from "./reference-checks.ts";
import { findTenantProblems } from "./tenant-references.ts";
import { findRepeats, formatPath } from "./references.ts";
import { parseDateAtMs } from "./units.ts";

/** What is allowed of keys, and how one becomes the hash under which it is stored. */
export interface KeyRules {
  /** Only `local` allows keys in plain text. */
  readonly mode: "local" | "production";
  /** HMAC-SHA-256 of a key under the gateway's pepper, as 64 hex digits. */
  readonly hashKey: (key: string) => string;
}

/**
 * Checks what a schema of single entries cannot see: names that point nowhere, things that are there
 * twice, plain keys outside local mode, more guaranteed than there is. It reads the document as it is written, so that these
 * problems are told along with all others; what has the wrong type is left to the schema.
 */
export function findReferenceProblems(document: unknown, rules: KeyRules): ConfigurationProblem[] {
  const root = { value: document, path: [] };
  const models = entriesOf(child(root, "models"));
  const pools = entriesOf(child(root, "pools"));
  const classes = entriesOf(child(root, "classes"));
  const tenants = entriesOf(child(root, "tenants"));
  const defaults = child(root, "defaults");
  const classNames = [...new Set([...Object.keys(BUILT_IN_CLASSES), ...classes.map(nameOf)])];
  const keysByTenant = tenants.map((tenant) => itemsOf(child(tenant, "keys")));
  const keys = keysByTenant.flat();
  const endpoints = pools.flatMap(endpointsOf);
  const issuers = entriesOf(child(root, "jwt"));
  return [
    ...unresolved("pool", childrenOf(models, "pool"), pools.map(nameOf)),
    ...issuers.flatMap((issuer) =>
      unresolved("tenant", itemsOf(child(issuer, "tenants")), tenants.map(nameOf)),
    ),
    ...repeats(childrenOf(issuers, "issuer")),
    ...sharedServers(endpoints),
    ...pools.flatMap(authProblems),
    ...pools.flatMap(priorityProblems),
    ...findReplicaModelProblems(pools, models),
    ...repeats(models.flatMap((model) => [named(model), ...itemsOf(child(model, "aliases"))])),
    ...models.flatMap(priceProblems),
    ...findTenantProblems({ models, tenants, defaults, classNames }),
    ...keysByTenant.flatMap((own) => repeats(childrenOf(own, "name"))),
    ...repeats(keys.flatMap((key) => hashOf(key, rules))),
    ...keys.flatMap((key) => formProblems(key, rules)),
    ...keys.flatMap(validityProblems),
    ...tenants.flatMap((tenant) => keyLimitProblems(tenant, defaults)),
    ...tooManyKeys(keys),
    ...findOvercommittedPools({ models, pools, tenants, defaults }),
  ];
}

/** What a server can do is known to the one pool that it is in: two would each give it all of their work. */
function sharedServers(endpoints: readonly Part[]): ConfigurationProblem[] {
  return findRepeats(mentionsOf(endpoints)).map(({ repeat, first }) => ({
    path: repeat.path,
    message: `is there twice: first at ${formatPath(first.path)}, and a server is in one pool`,
  }));
}

/** The URLs of a pool's replicas in their one spelling, standing where the file has them. */
function endpointsOf(pool: Part): Part[] {
  return itemsOf(child(pool, "replicas")).map((replica) => {
    const { value, path } = child(replica, "url");
    const normalize = isOurs(replica, pool) ? normalizeEndpointUrl : normalizeApiUrl;
    return { value: typeof value === "string" ? normalize(value) : undefined, path };
  });
}

function isOurs(replica: Part, pool: Part): boolean {
  return engineNameOf(replica, pool) === "sluice";
}

function engineNameOf(replica: Part, pool: Part): unknown {
  return child(replica, "engine").value ?? child(pool, "engine").value;
}

/** Our own engines have a secret that is the gateway's: another one would never be sent. */
function authProblems(pool: Part): ConfigurationProblem[] {
  const auth = child(pool, "auth");
  const replicas = itemsOf(child(pool, "replicas"));
  const isOfOthers = replicas.some((replica) => !isOurs(replica, pool));
  const isOurPool = child(pool, "engine").value === "sluice";
  if (auth.value === undefined || isOfOthers || (replicas.length === 0 && !isOurPool)) return [];
  const message = "expected no auth: engine sluice is sent SLUICE_REPLICA_SECRET";
  return [{ path: auth.path, message }];
}

/** Who takes no priorities would be sent none, and one that is not acted on is refused. */
function priorityProblems(pool: Part): ConfigurationProblem[] {
  return itemsOf(child(pool, "replicas")).flatMap((replica) => {
    const own = child(replica, "priorities");
    const asked = own.value === undefined ? child(pool, "priorities") : own;
    const engine = ENGINES.find((kind) => kind === engineNameOf(replica, pool));
    if (asked.value !== true || engine === undefined || canTakePriorities(engine)) return [];
    const hint =
      own.value === undefined ? `: say "priorities: false" at ${formatPath(replica.path)}` : "";
    const found = `found ${engine}, which takes none${hint}`;
    return [
      { path: asked.path, message: `expected engine ${PRIORITY_ENGINES.join(", ")}, ${found}` },
    ];
  });
}

/** A model under its name, which no alias may be. */
function named(model: Part): Part {
  return { ...model, value: nameOf(model) };
}

/** Who asked for the same prompt again would pay more for it. */
function priceProblems(model: Part): ConfigurationProblem[] {
  const price = child(model, "price_per_million_tokens");
  const [cached, input] = [child(price, "cached_input"), child(price, "input")];
  const [cachedMicros, inputMicros] = [cached, input].map(({ value }) => parseMicros(value));
  if (cachedMicros === undefined || inputMicros === undefined) return [];
  if (cachedMicros <= inputMicros) return [];
  const message = `expected at most the price of input, ${String(input.value)}, found ${String(cached.value)}`;
  return [{ path: cached.path, message }];
}

/** The hash of a key, standing where the file has the hash or the plain key. */
function hashOf(key: Part, { hashKey }: KeyRules): Part[] {
  const hash = child(key, "hash");
  if (hash.value !== undefined) {
    return typeof hash.value === "string" ? [{ ...hash, value: parseKeyHash(hash.value) }] : [];
  }
  const plain = child(key, "key");
  const apiKey = typeof plain.value === "string" ? parseApiKey(plain.value) : undefined;
  return apiKey === undefined ? [] : [{ ...plain, value: hashKey(apiKey) }];
}

function formProblems(key: Part, { mode }: KeyRules): ConfigurationProblem[] {
  if (!isMapping(key.value)) return [];
  const plain = child(key, "key");
  const hasPlain = plain.value !== undefined;
  const hasHash = child(key, "hash").value !== undefined;
  if (hasPlain && mode !== "local") {
    return [{ path: plain.path, message: "expected a hash: plain keys are for local mode only" }];
  }
  if (hasPlain === hasHash) {
    const found = hasHash ? "both" : "neither";
    const right = mode === "local" ? "either a hash or a plain key" : "a hash";
    return [{ path: key.path, message: `expected ${right}, found ${found}` }];
  }
  return [];
}

function validityProblems(key: Part): ConfigurationProblem[] {
  const [notBefore, expires] = [child(key, "not_before"), child(key, "expires")];
  const [from, to] = [notBefore, expires].map(({ value }) =>
    typeof value === "string" ? parseDateAtMs(value) : undefined,
  );
  if (from === undefined || to === undefined || from < to) return [];
  return [{ path: expires.path, message: "expected a day after not_before" }];
}

/** A key may use less than its tenant, never more, and it may not say the same thing twice. */
function keyLimitProblems(tenant: Part, defaults: Part): ConfigurationProblem[] {
  const own = (name: string): Part => inherited(tenant, defaults, name);
  const models = mentionsOf(itemsOf(own("models"))).map(({ name }) => name);
  const classes = mentionsOf([own("class"), ...itemsOf(own("classes"))]).map(({ name }) => name);
  return itemsOf(child(tenant, "keys")).flatMap((key) => {
    const lists = ["scopes", "models", "classes"].map((name) => itemsOf(child(key, name)));
    const [, keyModels = [], keyClasses = []] = lists;
    return [
      ...unresolved("model of its tenant", keyModels, models),
      ...unresolved("class of its tenant", keyClasses, classes),
      ...lists.flatMap((list) => repeats(list)),
    ];
  });
}

function tooManyKeys(keys: readonly Part[]): ConfigurationProblem[] {
  const { keysMax } = CONFIGURATION_LIMITS;
  if (keys.length <= keysMax) return [];
  const message = `expected at most ${keysMax} keys of all tenants together, found ${keys.length}`;
  return [{ path: ["tenants"], message }];
}
