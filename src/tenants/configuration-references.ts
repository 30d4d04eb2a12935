import { BUILT_IN_CLASSES } from "../slo/targets.ts";
import { parseApiKey, parseKeyHash } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import { unknownName } from "./configuration-problems.ts";
import { normalizeApiUrl, normalizeEndpointUrl } from "./endpoint-url.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import type { Part } from "./document-part.ts";
import { child, childrenOf, entriesOf, itemsOf, nameOf } from "./document-part.ts";
import { findOvercommittedPools } from "./guarantees.ts";
import { isMapping } from "./notation.ts";
import type { Mention } from "./references.ts";
import { findRepeats, findUnknown, formatPath } from "./references.ts";
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
  const classNames = [...new Set([...Object.keys(BUILT_IN_CLASSES), ...classes.map(nameOf)])];
  const modelsByTenant = tenants.map((tenant) => itemsOf(child(tenant, "models")));
  const keysByTenant = tenants.map((tenant) => itemsOf(child(tenant, "keys")));
  const keys = keysByTenant.flat();
  const endpoints = pools.flatMap(endpointsOf);
  const issuers = entriesOf(child(root, "jwt"));
  return [
    ...unresolved("pool", childrenOf(models, "pool"), pools.map(nameOf)),
    ...unresolved("model", modelsByTenant.flat(), models.map(nameOf)),
    ...unresolved("class", childrenOf(tenants, "class"), classNames),
    ...issuers.flatMap((issuer) =>
      unresolved("tenant", itemsOf(child(issuer, "tenants")), tenants.map(nameOf)),
    ),
    ...repeats(childrenOf(issuers, "issuer")),
    ...repeats(endpoints),
    ...pools.flatMap(authProblems),
    ...modelsByTenant.flatMap((own) => repeats(own)),
    ...keysByTenant.flatMap((own) => repeats(childrenOf(own, "name"))),
    ...repeats(keys.flatMap((key) => hashOf(key, rules))),
    ...keys.flatMap((key) => formProblems(key, rules)),
    ...keys.flatMap(validityProblems),
    ...tenants.flatMap(keyLimitProblems),
    ...tooManyKeys(keys),
    ...findOvercommittedPools({ models, tenants }),
    ...tenants.flatMap((tenant) => unpricedModels(tenant, models)),
  ];
}

/** The URLs of a pool's replicas in their one spelling, standing where the file has them. */
function endpointsOf(pool: Part): Part[] {
  const isForeign = child(pool, "engine").value === "openai";
  const normalize = isForeign ? normalizeApiUrl : normalizeEndpointUrl;
  return childrenOf(itemsOf(child(pool, "replicas")), "url").map(({ value, path }) => ({
    value: typeof value === "string" ? normalize(value) : undefined,
    path,
  }));
}

/** Our own engines have a secret that is the gateway's: another one would never be sent. */
function authProblems(pool: Part): ConfigurationProblem[] {
  const auth = child(pool, "auth");
  if (auth.value === undefined || child(pool, "engine").value !== "sluice") return [];
  const message = "expected no auth: engine sluice is sent SLUICE_REPLICA_SECRET";
  return [{ path: auth.path, message }];
}

function unresolved(
  what: string,
  uses: readonly Part[],
  names: readonly string[],
): ConfigurationProblem[] {
  return findUnknown(mentionsOf(uses), names).map(({ name, path }) => ({
    path,
    message: unknownName(what, name, names),
  }));
}

function repeats(
  parts: readonly Part[],
  identify: (text: string) => string | undefined = (text) => text,
): ConfigurationProblem[] {
  return findRepeats(mentionsOf(parts, identify)).map(({ repeat, first }) => ({
    path: repeat.path,
    message: `is there twice: first at ${formatPath(first.path)}`,
  }));
}

/** What has no price cannot be kept within a spend. */
function unpricedModels(tenant: Part, models: readonly Part[]): ConfigurationProblem[] {
  if (child(child(tenant, "limits"), "spend_per_month").value === undefined) return [];
  const unpriced = new Set(
    models
      .filter((model) => child(model, "price_per_million_tokens").value === undefined)
      .map(nameOf),
  );
  return mentionsOf(itemsOf(child(tenant, "models"))).flatMap(({ name, path }) => {
    if (!unpriced.has(name)) return [];
    const missing = formatPath(["models", name, "price_per_million_tokens"]);
    const message = `expected a model with a price, since limits has spend_per_month: ${missing} is missing`;
    return [{ path, message }];
  });
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
function keyLimitProblems(tenant: Part): ConfigurationProblem[] {
  const models = mentionsOf(itemsOf(child(tenant, "models"))).map(({ name }) => name);
  const own = [child(tenant, "class"), ...itemsOf(child(tenant, "classes"))];
  const classes = mentionsOf(own).map(({ name }) => name);
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

function mentionsOf(
  parts: readonly Part[],
  identify: (text: string) => string | undefined = (text) => text,
): Mention[] {
  return parts.flatMap(({ value, path }) => {
    const name = typeof value === "string" ? identify(value) : undefined;
    return name === undefined ? [] : [{ name, path }];
  });
}
