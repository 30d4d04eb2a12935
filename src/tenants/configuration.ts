import type * as z from "zod";
import { assert } from "../base/assert.ts";
import type { SloTargets } from "../slo/targets.ts";
import { BUILT_IN_CLASSES } from "../slo/targets.ts";
import type {
  KeySection,
  LimitsSection,
  ModelSection,
  PoolSection,
  TimeoutsSection,
} from "./configuration-file.ts";
import { ConfigurationFile } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import { toProblems } from "./configuration-problems.ts";
import type { KeyRules } from "./configuration-references.ts";
import { findReferenceProblems } from "./configuration-references.ts";
import { normalizeApiUrl } from "./endpoint-url.ts";
import { resolveShares } from "./guarantees.ts";
import { LiveConfiguration } from "./live-configuration.ts";
import { toJwtIssuer } from "./jwt-issuer.ts";
import type { LimitsMax } from "./tenant-limits.ts";

export type ParsedConfiguration =
  | { readonly kind: "ok"; readonly configuration: LiveConfiguration }
  | { readonly kind: "invalid"; readonly problems: readonly ConfigurationProblem[] };

const QUEUE_MAX_DEFAULT = 256;

/**
 * Turns a parsed `sluice.yaml` into the live configuration: units resolved, defaults filled in, keys
 * hashed. A document that is not right in every point yields all of its problems at once.
 */
export function parseConfiguration(document: unknown, rules: KeyRules): ParsedConfiguration {
  const file = ConfigurationFile.safeParse(document, { reportInput: true });
  const problems = [
    ...(file.error?.issues ?? []).flatMap(toProblems),
    ...findReferenceProblems(document, rules),
  ];
  if (!file.success || problems.length > 0) return { kind: "invalid", problems };
  return { kind: "ok", configuration: LiveConfiguration.parse(resolve(file.data, rules)) };
}

function resolve(
  file: ConfigurationFile,
  { hashKey }: KeyRules,
): z.input<typeof LiveConfiguration> {
  const classes = new Map([...Object.entries(BUILT_IN_CLASSES), ...targetsByClass(file)]);
  const tenants = [...file.tenants];
  const sharesByTenant = resolveShares(file);
  const ownClasses = targetsByClass(file).map(([className, targets]) => ({ className, targets }));
  return {
    ...(ownClasses.length > 0 && { classes: ownClasses }),
    ...(file.jwt !== undefined && {
      jwtIssuers: [...file.jwt].map(([name, issuer]) => toJwtIssuer(name, issuer)),
    }),
    models: [...file.models].map(([modelId, model]) => ({
      modelId,
      poolId: model.pool,
      upstreamModel: model.upstream ?? modelId,
      contextTokens: model.context,
      ...priceOf(model),
    })),
    pools: [...file.pools].map(([poolId, pool]) => ({
      poolId,
      ...resolvePool(pool),
      ...limitsOfModels(poolId, file),
    })),
    tenants: tenants.map(([tenantId, tenant]) => {
      const { models, class: className, attempts: attemptsMax } = tenant;
      const { continuation, shards = 1 } = tenant;
      const targets = classes.get(className);
      assert(targets !== undefined, "a class that a tenant names was found to exist");
      return {
        tenantId,
        modelIds: models,
        className,
        targets,
        shares: sharesByTenant.get(tenantId) ?? [],
        ...limitsMaxOf(tenant.limits),
        ...(tenant.timeouts !== undefined && { timeouts: resolveTimeouts(tenant.timeouts) }),
        ...(attemptsMax !== undefined && { attemptsMax }),
        ...(shards > 1 && { shards }),
        ...(continuation !== undefined && { continuation }),
      };
    }),
    keys: tenants.flatMap(([tenantId, tenant]) =>
      tenant.keys.map((key) => ({
        hash: key.hash ?? hashOf(key, hashKey),
        tenantId,
        name: key.name,
        ...permissionsOf(key),
      })),
    ),
  };
}

function resolvePool({ engine, replicas, queue_max, auth, health }: z.infer<typeof PoolSection>) {
  const { eject_after: ejectAfter, cooldown_max: cooldownMsMax } = health ?? {};
  return {
    engine,
    replicas: replicas.map(({ url, max_running: requestsMax }) => {
      const endpointUrl = engine === "openai" ? (normalizeApiUrl(url) ?? url) : url;
      const limit = requestsMax !== undefined && { requestsMax };
      return { replicaId: endpointUrl, endpointUrl, ...limit };
    }),
    queueMax: queue_max ?? QUEUE_MAX_DEFAULT,
    ...(auth !== undefined && { secretName: auth.secret }),
    ...(health !== undefined && {
      health: {
        ...(ejectAfter !== undefined && { ejectAfter }),
        ...(cooldownMsMax !== undefined && { cooldownMsMax }),
      },
    }),
  };
}

function limitsOfModels(poolId: string, { models }: ConfigurationFile) {
  const modelLimits = [...models].flatMap(([modelId, { pool, max_running: requestsMax }]) =>
    pool === poolId && requestsMax !== undefined ? [{ modelId, requestsMax }] : [],
  );
  return modelLimits.length > 0 && { modelLimits };
}

/** Millionths of the currency a million tokens are picos a token. */
function priceOf({ price_per_million_tokens: price }: ModelSection) {
  if (price === undefined) return {};
  const { input, cached_input: cachedInput = input, output } = price;
  return {
    price: {
      inputPicosPerToken: input,
      cachedInputPicosPerToken: cachedInput,
      outputPicosPerToken: output,
    },
  };
}

function resolveTimeouts({ total, first_token, stall }: TimeoutsSection) {
  return {
    ...(total !== undefined && { totalMs: total }),
    ...(typeof first_token === "number" && { firstTokenMs: first_token }),
    ...(typeof stall === "number" && { stallMs: stall }),
  };
}

function limitsMaxOf(limits: LimitsSection = {}): LimitsMax {
  const { concurrency, requests_per_minute: requests, tokens_per_minute: tokens } = limits;
  const { tokens_per_month: tokensOfMonth, spend_per_month: spendMicros } = limits;
  return {
    ...(concurrency !== undefined && { concurrencyMax: concurrency }),
    ...(requests !== undefined && { requestsPerMinuteMax: requests }),
    ...(tokens !== undefined && { tokensPerMinuteMax: tokens }),
    ...(tokensOfMonth !== undefined && { tokensPerMonthMax: tokensOfMonth }),
    ...(spendMicros !== undefined && { spendPerMonthMaxMicros: spendMicros }),
  };
}

function permissionsOf({ not_before, expires, scopes, models, classes }: KeySection) {
  return {
    ...(not_before !== undefined && { notBeforeAtMs: not_before }),
    ...(expires !== undefined && { expiresAtMs: expires }),
    ...(scopes !== undefined && { scopes }),
    ...(models !== undefined && { modelIds: models }),
    ...(classes !== undefined && { classNames: classes }),
  };
}

function hashOf({ key }: KeySection, hashKey: KeyRules["hashKey"]): string {
  assert(key !== undefined, "a key without a hash was found to be there in plain text");
  return hashKey(key);
}

function targetsByClass(file: ConfigurationFile): [string, SloTargets][] {
  return [...(file.classes ?? [])].map(([name, { tbt_max: tbtMaxMs, ...targets }]) => [
    name,
    { ...targets, ...(tbtMaxMs !== undefined && { tbtMaxMs }) },
  ]);
}
