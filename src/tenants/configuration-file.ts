import * as z from "zod";
import { normalizeEndpointUrl } from "./endpoint-url.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import { JWT_ISSUERS_MAX, JwtSection } from "./jwt-issuer.ts";
import { KEY_SCOPE_NOTATION, parseKeyScope } from "./key-scope.ts";
import { PRICE_MICROS_MAX } from "./model-price.ts";
import { parseMicros } from "./money.ts";
import { Name } from "./name.ts";
import { countNotation, listOf, mappingOf, notation, section, textNotation } from "./notation.ts";
import { isSecretName } from "./secret-name.ts";
import { parseDateAtMs, parseDurationMs, parseRatio } from "./units.ts";

/** Completes "expected …" where `parseApiKey` finds no key. */
export const API_KEY_NOTATION = "a key of 8 to 512 visible ASCII characters that begins with sk-";

const ModelName = textNotation(
  "a name of at most 256 letters, digits, '.', '_', '-', ':' or '/', the first a letter or digit",
  (text) => (/^[A-Za-z0-9][\w.:/-]{0,255}$/.test(text) ? text : undefined),
);

const DurationMs = textNotation("a duration such as 300ms, 8s or 2m", (text) => {
  const durationMs = parseDurationMs(text);
  return durationMs !== undefined && durationMs > 0 ? durationMs : undefined;
});

const DateAtMs = textNotation("a date such as 2027-06-30", parseDateAtMs);

const {
  attemptsMax,
  attemptsMin,
  bandMax,
  contextTokensMax,
  cooldownMsMax,
  cooldownMsMin,
  ejectAfterMax,
  firstTokenTimeoutMsMax,
  queueMax,
  replicasPerPoolMax,
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

const Price = amountNotation("an amount from 0 to 1000000 with at most 6 decimals, such as 0.15", {
  minMicros: 0,
  maxMicros: PRICE_MICROS_MAX,
});

export const PriceSection = section({
  input: Price,
  cached_input: Price.exactOptional(),
  output: Price,
});

export const ModelSection = section({
  context: countNotation("tokens", { min: 1, max: contextTokensMax }),
  pool: Name,
  upstream: ModelName.exactOptional(),
  max_running: Requests.exactOptional(),
  price_per_million_tokens: PriceSection.exactOptional(),
});
export type ModelSection = z.infer<typeof ModelSection>;

export const ReplicaSection = section({
  url: textNotation(
    "a URL such as http://10.0.0.7:9101, without credentials, query or fragment",
    normalizeEndpointUrl,
  ),
  max_running: Requests.exactOptional(),
});

export const AuthSection = section({
  secret: textNotation(
    "the name of a secret of the Worker in capitals, such as GPU_POOL_TOKEN, and none of SLUICE_…",
    (text) => (isSecretName(text) ? text : undefined),
  ),
});

export const HealthSection = section({
  eject_after: countNotation("failures in a row", { min: 1, max: ejectAfterMax }).exactOptional(),
  cooldown_max: textNotation("a duration from 100ms to 1h, such as 3s", (text) =>
    parseDurationWithin(text, cooldownMsMin, cooldownMsMax),
  ).exactOptional(),
  probe: notation("passive (replicas are probed by real requests)", (found) =>
    found === "passive" ? found : undefined,
  ).exactOptional(),
});

const REPLICAS = `a list of 1 to ${replicasPerPoolMax} replicas`;

export const PoolSection = section({
  engine: notation("sluice or openai (other engines are not supported yet)", (found) =>
    isEngine(found) ? found : undefined,
  ),
  replicas: z.array(ReplicaSection, REPLICAS).min(1, REPLICAS).max(replicasPerPoolMax, REPLICAS),
  queue_max: countNotation("requests", { min: 0, max: queueMax }).exactOptional(),
  auth: AuthSection.exactOptional(),
  health: HealthSection.exactOptional(),
});

const PERCENTILE = "a percentile such as p50, p99 or p99.9";
const PercentileRatio = textNotation(PERCENTILE, parsePercentile);

const ONE_TARGET = "one percentile with its limit, such as { p99: 300ms }";
const Target = mappingOf(PercentileRatio, DurationMs, {
  expected: ONE_TARGET,
  max: 1,
}).transform((limits, context) => {
  const target = toTarget(limits);
  if (target !== undefined) return target;
  context.issues.push({ code: "custom", message: ONE_TARGET, input: limits });
  return z.NEVER;
});

const PER_PROMPT_TOKEN = "per_prompt_token";
const TTFT_TARGET = `${ONE_TARGET}, and ${PER_PROMPT_TOKEN} where the limit grows with the prompt`;
const TtftLimit = textNotation(`${PERCENTILE}, or ${PER_PROMPT_TOKEN}`, (text) =>
  text === PER_PROMPT_TOKEN ? text : parsePercentile(text),
);
const TtftTarget = mappingOf(TtftLimit, DurationMs, {
  expected: TTFT_TARGET,
  max: 2,
}).transform((limits, context) => {
  const target = toTarget(new Map([...limits].filter(isPercentile)));
  const perPromptTokenMs = limits.get(PER_PROMPT_TOKEN);
  if (target !== undefined) {
    return { ...target, ...(perPromptTokenMs !== undefined && { perPromptTokenMs }) };
  }
  context.issues.push({ code: "custom", message: TTFT_TARGET, input: limits });
  return z.NEVER;
});

export const ClassSection = section({
  ttft: TtftTarget.exactOptional(),
  tpot: Target.exactOptional(),
  e2e: Target.exactOptional(),
  tbt_max: DurationMs.exactOptional(),
}).refine(
  (targets) => Object.keys(targets).length > 0,
  "at least one target: ttft, tpot, e2e, tbt_max",
);

export const KeySection = section({
  name: Name,
  hash: textNotation("hmac-sha256: and 64 hex digits", parseKeyHash).exactOptional(),
  key: textNotation(API_KEY_NOTATION, parseApiKey).exactOptional(),
  not_before: DateAtMs.exactOptional(),
  expires: DateAtMs.exactOptional(),
  scopes: listOf("scopes", textNotation(KEY_SCOPE_NOTATION, parseKeyScope)).exactOptional(),
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

const TIMEOUT = "a duration from 10ms to 10m, such as 120s";
const FIRST_TOKEN_TIMEOUT = "auto, or a duration from 10ms to 60s, such as 600ms";

export const TimeoutsSection = section({
  total: textNotation(TIMEOUT, (text) => parseTimeoutMs(text, timeoutMsMax)).exactOptional(),
  first_token: textNotation(FIRST_TOKEN_TIMEOUT, (text) =>
    text === "auto" ? text : parseTimeoutMs(text, firstTokenTimeoutMsMax),
  ).exactOptional(),
  stall: textNotation(`auto, or ${TIMEOUT}`, (text) =>
    text === "auto" ? text : parseTimeoutMs(text, timeoutMsMax),
  ).exactOptional(),
});
export type TimeoutsSection = z.infer<typeof TimeoutsSection>;

export const ShareSection = section({
  weight: notation(`a number from ${weightMin} to ${weightMax}`, (found) =>
    typeof found === "number" && found >= weightMin && found <= weightMax ? found : undefined,
  ).exactOptional(),
  guaranteed: textNotation("a share such as 20% or 0.5%", parseRatio).exactOptional(),
});

export const TenantSection = section({
  keys: z.array(KeySection, "a list of keys"),
  models: z.array(ModelName, "a list of models").min(1, "at least one model"),
  class: Name,
  share: ShareSection.exactOptional(),
  priority: notation(`a band from 0, the most urgent one, to ${bandMax}`, (found) =>
    isBand(found) ? found : undefined,
  ).exactOptional(),
  limits: LimitsSection.exactOptional(),
  timeouts: TimeoutsSection.exactOptional(),
  shards: countNotation("objects", { min: 1, max: shardsMax }).exactOptional(),
  attempts: countNotation("attempts", { min: attemptsMin, max: attemptsMax }).exactOptional(),
  continuation: notation("true or false", (found) =>
    typeof found === "boolean" ? found : undefined,
  ).exactOptional(),
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
  jwt: mappingOf(Name, JwtSection, { max: JWT_ISSUERS_MAX }).exactOptional(),
  tenants: mappingOf(Name, TenantSection, {
    max: CONFIGURATION_LIMITS.tenantsMax,
    entry: "tenant",
  }),
});
export type ConfigurationFile = z.infer<typeof ConfigurationFile>;

/** Reads an API key in plain text. */
export function parseApiKey(text: string): string | undefined {
  return /^sk-[\x21-\x7e]{5,509}$/.test(text) ? text : undefined;
}

/** Reads a hashed API key: the hex digits of its HMAC. */
export function parseKeyHash(text: string): string | undefined {
  return /^hmac-sha256:([0-9a-f]{64})$/.exec(text)?.[1];
}

/** An amount of the currency that all prices of the file are in, in millionths of it. */
function amountNotation(
  expected: string,
  { minMicros, maxMicros }: { minMicros: number; maxMicros: number },
) {
  return notation(expected, (found) => {
    const micros = parseMicros(found) ?? -1;
    return micros >= minMicros && micros <= maxMicros ? micros : undefined;
  });
}

function parseTimeoutMs(text: string, maxMs: number): number | undefined {
  return parseDurationWithin(text, timeoutMsMin, maxMs);
}

function parseDurationWithin(text: string, minMs: number, maxMs: number): number | undefined {
  const durationMs = parseDurationMs(text);
  if (durationMs === undefined || durationMs < minMs || durationMs > maxMs) return undefined;
  return durationMs;
}

function parsePercentile(text: string): number | undefined {
  const [, digits = ""] = /^p(\d{1,2}(?:\.\d{1,2})?)$/.exec(text) ?? [];
  const ratio = Number(`${digits}e-2`);
  return ratio > 0 ? ratio : undefined;
}

function isEngine(found: unknown): found is "sluice" | "openai" {
  return found === "sluice" || found === "openai";
}

function isBand(found: unknown): found is number {
  return typeof found === "number" && Number.isInteger(found) && found >= 0 && found <= bandMax;
}

function toTarget(limits: ReadonlyMap<number, number>) {
  const [first, ...others] = limits;
  if (first === undefined || others.length > 0) return undefined;
  const [percentileRatio, limitMs] = first;
  return { percentileRatio, limitMs };
}

function isPercentile(entry: [number | string, number]): entry is [number, number] {
  return typeof entry[0] === "number";
}
