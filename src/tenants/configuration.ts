import type * as z from "zod";
import { assert } from "../base/assert.ts";
import type { SloTargets } from "../slo/targets.ts";
import { BUILT_IN_CLASSES } from "../slo/targets.ts";
import { resolveCache } from "./cache-section.ts";
import type {
  KeySection,
  LimitsSection,
  TenantSection,
  TimeoutsSection,
} from "./configuration-file.ts";
import { ConfigurationFile } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import { toProblems } from "./configuration-problems.ts";
import type { KeyRules } from "./configuration-references.ts";
import { findReferenceProblems } from "./configuration-references.ts";
import { normalizeApiUrl } from "./endpoint-url.ts";
import { resolveShares } from "./guarantees.ts";
import type { WholeTenant } from "./inheritance.ts";
import { inherit } from "./inheritance.ts";
import { LiveConfiguration } from "./live-configuration.ts";
import { toJwtIssuer } from "./jwt-issuer.ts";
import type { ModelSection, PoolSection, ReplicaSection } from "./pool-section.ts";
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
    ...withoutSizes(file.error?.issues ?? []).flatMap(toProblems),
    ...findReferenceProblems(document, rules),
  ];
  if (!file.success || problems.length > 0) return { kind: "invalid", problems };
  return { kind: "ok", configuration: LiveConfiguration.parse(resolve(file.data, rules)) };
}

/** A text where a list should be is too long or too short a list as well: once is enough. */
function withoutSizes(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  const wrongTypes = new Set(
    issues.filter(({ code }) => code === "invalid_type").map(({ path }) => JSON.stringify(path)),
  );
  return issues.filter(
    ({ code, path }) =>
      (code !== "too_big" && code !== "too_small") || !wrongTypes.has(JSON.stringify(path)),
  );
}

function resolve(
  file: ConfigurationFile,
  { hashKey }: KeyRules,
): z.input<typeof LiveConfiguration> {
  const classes = new Map([...Object.entries(BUILT_IN_CLASSES), ...targetsByClass(file)]);
  const tenants = new Map([...file.tenants].map(([name, tenant]) => [name, whole(tenant, file)]));
  const sharesByTenant = resolveShares(file, tenants);
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
      ...(model.aliases !== undefined && { aliases: model.aliases }),
      ...priceOf(model),
    })),
    pools: [...file.pools].map(([poolId, pool]) => ({
      poolId,
      ...resolvePool(pool, file),
      ...limitsOfModels(poolId, file),
    })),
    tenants: [...tenants].map(([tenantId, tenant]) => ({
      tenantId,
      ...resolveTenant(tenant, classes),
      shares: sharesByTenant.get(tenantId) ?? [],
    })),
    keys: [...tenants].flatMap(([tenantId, tenant]) =>
      tenant.keys.map((key) => ({
        hash: key.hash ?? hashOf(key, hashKey),
        tenantId,
        name: key.name,
        ...permissionsOf(key),
      })),
    ),
  };
}

function whole(tenant: TenantSection, { defaults }: ConfigurationFile): WholeTenant {
  const { models, class: className, ...rest } = inherit(tenant, defaults);
  assert(models !== undefined && className !== undefined, "what a tenant lacks was found before");
  return { ...rest, models, class: className };
}

function resolveTenant(tenant: WholeTenant, classes: ReadonlyMap<string, SloTargets>) {
  const { models: modelIds, class: className, attempts: attemptsMax } = tenant;
  const { continuation, shards = 1, overload, cors } = tenant;
  const targetsOf = (name: string): SloTargets => {
    const targets = classes.get(name);
    assert(targets !== undefined, "a class that a tenant names was found to exist");
    return targets;
  };
  const others = (tenant.classes ?? []).filter((name) => name !== className);
  return {
    modelIds,
    className,
    targets: targetsOf(className),
    ...limitsMaxOf(tenant.limits),
    ...(others.length > 0 && {
      classes: others.map((name) => ({ className: name, targets: targetsOf(name) })),
    }),
    ...resolveCache(tenant.cache),
    ...(tenant.timeouts !== undefined && { timeouts: resolveTimeouts(tenant.timeouts) }),
    ...(attemptsMax !== undefined && { attemptsMax }),
    ...(shards > 1 && { shards }),
    ...(overload !== undefined && { overload }),
    ...(cors !== undefined && { origins: cors.origins }),
    ...(continuation !== undefined && { continuation }),
  };
}

function resolvePool(pool: z.infer<typeof PoolSection>, file: ConfigurationFile) {
  const { engine, replicas, queue_max, auth, health } = pool;
  const { eject_after: ejectAfter, cooldown_max: cooldownMsMax } = health ?? {};
  return {
    engine,
    replicas: replicas.map((replica) => resolveReplica(replica, pool, file)),
    queueMax: queue_max ?? QUEUE_MAX_DEFAULT,
    ...(auth !== undefined && { secretName: auth.secret }),
    ...transportOf(pool),
    ...(health !== undefined && {
      health: {
        ...(ejectAfter !== undefined && { ejectAfter }),
        ...(cooldownMsMax !== undefined && { cooldownMsMax }),
      },
    }),
  };
}

function resolveReplica(
  replica: z.infer<typeof ReplicaSection>,
  pool: z.infer<typeof PoolSection>,
  file: ConfigurationFile,
) {
  const { url, engine = pool.engine, max_running: requestsMax, weight, models } = replica;
  const endpointUrl = engine === "sluice" ? url : (normalizeApiUrl(url) ?? url);
  return {
    replicaId: endpointUrl,
    endpointUrl,
    ...(engine !== pool.engine && { engine }),
    ...(requestsMax !== undefined && { requestsMax }),
    ...(weight !== undefined && { weight }),
    ...(models !== undefined && {
      models: [...new Set(models.map((name) => file.models.get(name)?.upstream ?? name))],
    }),
    ...((replica.priorities ?? pool.priorities) === true && { takesPriorities: true as const }),
  };
}

function transportOf({ via, access }: z.infer<typeof PoolSection>) {
  if (via === undefined && access === undefined) return {};
  const token = access && { idName: access.client_id, secretName: access.client_secret };
  return {
    transport: { ...(via !== undefined && { via }), ...(token !== undefined && { access: token }) },
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
