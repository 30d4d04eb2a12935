import * as z from "zod";
import { CacheSection } from "./cache-section.ts";
import { ClassSection } from "./class-section.ts";
import {
  amountNotation,
  boundedDurationNotation,
  DateAtMs,
  ModelName,
  Name,
} from "./file-notations.ts";
import { JWT_ISSUERS_MAX, JwtSection } from "./jwt-issuer.ts";
import { KEY_SCOPES } from "./key-scope.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import {
  choiceNotation,
  countNotation,
  listOf,
  mappingOf,
  notation,
  section,
  switchNotation,
  textNotation,
} from "./notation.ts";
import { OverloadSection } from "./overload-section.ts";
import { ModelSection, PoolSection } from "./pool-section.ts";
import { GUARANTEED_RATIO_MAX } from "./share.ts";
import { parseRatio, PATTERNS } from "./units.ts";

/** Completes "expected …" where `parseApiKey` finds no key. */
export const API_KEY_NOTATION = "a key of 8 to 512 visible ASCII characters that begins with sk-";

const {
  attemptsMax,
  attemptsMin,
  bandMax,
  classesPerTenantMax,
  firstTokenTimeoutMsMax,
  originsMax,
  requestsMax,
  requestsPerMinuteMax,
  shardsMax,
  spendPerMonthMaxMicros,
  timeoutMsMax,
  timeoutMsMin,
  tokensPerMinuteMax,
  tokensPerMonthMax,
  weightMax,
  weightMin,
} = CONFIGURATION_LIMITS;

const Requests = countNotation("requests", { min: 1, max: requestsMax });

const API_KEY = /^sk-[\x21-\x7e]{5,509}$/;
const KEY_HASH = /^hmac-sha256:([0-9a-f]{64})$/;

export const KeySection = section({
  name: Name,
  hash: textNotation("hmac-sha256: and 64 hex digits", parseKeyHash, {
    pattern: KEY_HASH.source,
  }).exactOptional(),
  key: textNotation(API_KEY_NOTATION, parseApiKey, { pattern: API_KEY.source }).exactOptional(),
  not_before: DateAtMs.exactOptional(),
  expires: DateAtMs.exactOptional(),
  scopes: listOf(
    "scopes",
    choiceNotation(KEY_SCOPES, `a scope: ${KEY_SCOPES.join(", ")}`),
  ).exactOptional(),
  models: listOf("models", ModelName).exactOptional(),
  classes: listOf("classes", Name).exactOptional(),
});
export type KeySection = z.infer<typeof KeySection>;

export const LimitsSection = section({
  concurrency: Requests.exactOptional(),
  requests_per_minute: countNotation("requests", {
    min: 1,
    max: requestsPerMinuteMax,
  }).exactOptional(),
  tokens_per_minute: countNotation("tokens", { min: 1, max: tokensPerMinuteMax }).exactOptional(),
  tokens_per_month: countNotation("tokens", { min: 1, max: tokensPerMonthMax }).exactOptional(),
  spend_per_month: amountNotation(
    "an amount from 0.000001 to 1000000000 with at most 6 decimals, such as 250 or 99.50",
    { minMicros: 1, maxMicros: spendPerMonthMaxMicros },
  ).exactOptional(),
});
export type LimitsSection = z.infer<typeof LimitsSection>;

/** A scheme with a host, and a port where it is not the usual one: as browsers write it. */
const ORIGIN = /^https?:\/\/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/;

const TIMEOUT = "a duration from 10ms to 10m, such as 120s";
const FIRST_TOKEN_TIMEOUT = "auto, or a duration from 10ms to 60s, such as 600ms";

export const TimeoutsSection = section({
  total: boundedDurationNotation(TIMEOUT, {
    minMs: timeoutMsMin,
    maxMs: timeoutMsMax,
  }).exactOptional(),
  first_token: boundedDurationNotation(FIRST_TOKEN_TIMEOUT, {
    minMs: timeoutMsMin,
    maxMs: firstTokenTimeoutMsMax,
    words: ["auto"],
  }).exactOptional(),
  stall: boundedDurationNotation(`auto, or ${TIMEOUT}`, {
    minMs: timeoutMsMin,
    maxMs: timeoutMsMax,
    words: ["auto"],
  }).exactOptional(),
});
export type TimeoutsSection = z.infer<typeof TimeoutsSection>;

const GUARANTEED = `a share of at most ${GUARANTEED_RATIO_MAX * 100}%, such as 20% or 0.5%`;

export const ShareSection = section({
  weight: notation(
    `a number from ${weightMin} to ${weightMax}`,
    (found) =>
      typeof found === "number" && found >= weightMin && found <= weightMax ? found : undefined,
    { type: "number", minimum: weightMin, maximum: weightMax },
  ).exactOptional(),
  guaranteed: textNotation(GUARANTEED, parseRatio, {
    pattern: PATTERNS.ratio,
  }).exactOptional(),
});

const ORIGINS = `a list of at most ${originsMax} origins, such as https://app.example`;

export const CorsSection = section({
  origins: z
    .array(
      textNotation(
        "an origin such as https://app.example, in lower case and without a path",
        (text) => (ORIGIN.test(text) ? text : undefined),
        { pattern: ORIGIN.source },
      ),
      ORIGINS,
    )
    .max(originsMax, ORIGINS),
});

const CLASSES = `a list of at most ${classesPerTenantMax} classes`;

/** What all tenants may have alike. */
const TENANT_KEYS = {
  models: z.array(ModelName, "a list of models").min(1, "at least one model").exactOptional(),
  class: Name.exactOptional(),
  classes: z.array(Name, CLASSES).max(classesPerTenantMax, CLASSES).exactOptional(),
  share: ShareSection.exactOptional(),
  priority: notation(
    `a band from 0, the most urgent one, to ${bandMax}`,
    (found) => (isBand(found) ? found : undefined),
    { type: "integer", minimum: 0, maximum: bandMax },
  ).exactOptional(),
  limits: LimitsSection.exactOptional(),
  cache: CacheSection.exactOptional(),
  timeouts: TimeoutsSection.exactOptional(),
  shards: countNotation("objects", { min: 1, max: shardsMax }).exactOptional(),
  attempts: countNotation("attempts", { min: attemptsMin, max: attemptsMax }).exactOptional(),
  continuation: switchNotation().exactOptional(),
  overload: OverloadSection.exactOptional(),
  cors: CorsSection.exactOptional(),
};

/** What a tenant has that says nothing of it itself. */
export const DefaultsSection = section(TENANT_KEYS);
export type DefaultsSection = z.infer<typeof DefaultsSection>;

export const TenantSection = section({
  keys: z.array(KeySection, "a list of keys"),
  ...TENANT_KEYS,
});
export type TenantSection = z.infer<typeof TenantSection>;

/** `sluice.yaml` as it is written, units resolved. Names in it may still point nowhere. */
export const ConfigurationFile = section({
  models: mappingOf(ModelName, ModelSection, {
    max: CONFIGURATION_LIMITS.modelsMax,
    entry: "model",
  }),
  pools: mappingOf(Name, PoolSection, { max: CONFIGURATION_LIMITS.poolsMax, entry: "pool" }),
  classes: mappingOf(Name, ClassSection, { max: CONFIGURATION_LIMITS.classesMax }).exactOptional(),
  defaults: DefaultsSection.exactOptional(),
  jwt: mappingOf(Name, JwtSection, { max: JWT_ISSUERS_MAX }).exactOptional(),
  tenants: mappingOf(Name, TenantSection, {
    max: CONFIGURATION_LIMITS.tenantsMax,
    entry: "tenant",
  }),
});
export type ConfigurationFile = z.infer<typeof ConfigurationFile>;

/** Reads an API key in plain text. */
export function parseApiKey(text: string): string | undefined {
  return API_KEY.test(text) ? text : undefined;
}

/** Reads a hashed API key: the hex digits of its HMAC. */
export function parseKeyHash(text: string): string | undefined {
  return KEY_HASH.exec(text)?.[1];
}

function isBand(found: unknown): found is number {
  return typeof found === "number" && Number.isInteger(found) && found >= 0 && found <= bandMax;
}
