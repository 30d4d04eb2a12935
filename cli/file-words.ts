import type { Changes } from "../src/tenants/admin-answers.ts";
import type { RowKind } from "../src/tenants/configuration-rows.ts";
import { amountText, picosOfMicros } from "../src/tenants/money.ts";

type FieldChange = NonNullable<Changes["changes"][number]["fields"]>[number];

type Unit = (value: unknown) => string;

const plain: Unit = (value) => {
  if (Array.isArray(value)) return `[${value.map(plain).join(", ")}]`;
  return typeof value === "string" ? value : JSON.stringify(value);
};
/** What is not of the expected shape is told as it is: it may be of a later version. */
const ofNumber =
  (format: (value: number) => string): Unit =>
  (value) =>
    typeof value === "number" ? format(value) : plain(value);
const duration = ofNumber(durationText);
const ratio = ofNumber((value) => `${Number((value * 100).toFixed(4))}%`);
const day = ofNumber((atMs) =>
  new Date(atMs).toISOString().replace(/T00:00:00\.000Z$|\.000(?=Z$)/, ""),
);
/** Picos a token are millionths for a million tokens. */
const amount = ofNumber((micros) => amountText(picosOfMicros(micros)));
const steps: Unit = (value) => (Array.isArray(value) ? plain(value.map(stepText)) : plain(value));

/** What the file calls a field, `*` for a name; without words it is said by what stands around it. */
type Dictionary = readonly (readonly [field: string, words?: string, unit?: Unit])[];

const targets = (field: string, words: string): Dictionary => [
  ...["ttft", "tpot", "e2e"].flatMap((target): Dictionary => [
    [`${field}.${target}.limitMs`, `${words}.${target}`, duration],
    [`${field}.${target}.percentileRatio`, `${words}.${target} percentile`, ratio],
  ]),
  [`${field}.ttft.perPromptTokenMs`, `${words}.ttft.per_prompt_token`, duration],
  [`${field}.tbtMaxMs`, `${words}.tbt_max`, duration],
];

const DICTIONARIES: Readonly<Record<RowKind, Dictionary>> = {
  settings: [
    ["classes.*.className"],
    ...targets("classes.*.targets", "classes.*"),
    ["jwtIssuers.*.name"],
    ["jwtIssuers.*.issuer", "jwt.*.issuer"],
    ["jwtIssuers.*.jwksUrl", "jwt.*.jwks"],
    ["jwtIssuers.*.audience", "jwt.*.audience"],
    ["jwtIssuers.*.tenantClaim", "jwt.*.tenant_claim"],
    ["jwtIssuers.*.algorithms", "jwt.*.algorithms"],
    ["jwtIssuers.*.tenantIds", "jwt.*.tenants"],
  ],
  model: [
    ["modelId"],
    ["poolId", "pool"],
    ["upstreamModel", "upstream"],
    ["contextTokens", "context"],
    ["aliases", "aliases"],
    ["price.inputPicosPerToken", "price_per_million_tokens.input", amount],
    ["price.cachedInputPicosPerToken", "price_per_million_tokens.cached_input", amount],
    ["price.outputPicosPerToken", "price_per_million_tokens.output", amount],
  ],
  pool: [
    ["poolId"],
    ["engine", "engine"],
    ["replicas.*.replicaId"],
    ["replicas.*.endpointUrl", "replicas.*.url"],
    ["replicas.*.engine", "replicas.*.engine"],
    ["replicas.*.requestsMax", "replicas.*.max_running"],
    ["replicas.*.weight", "replicas.*.weight"],
    ["replicas.*.models", "replicas.*.models"],
    ["replicas.*.takesPriorities", "replicas.*.priorities"],
    ["queueMax", "queue_max"],
    ["secretName", "auth.secret"],
    ["transport.via", "via"],
    ["transport.access.idName", "access.client_id"],
    ["transport.access.secretName", "access.client_secret"],
    ["health.ejectAfter", "health.eject_after"],
    ["health.cooldownMsMax", "health.cooldown_max", duration],
    ["modelLimits.*.modelId"],
    ["modelLimits.*.requestsMax", "max_running of the model *"],
  ],
  tenant: [
    ["tenantId"],
    ["modelIds", "models"],
    ["className", "class"],
    ...targets("targets", "class"),
    ["shares.*.poolId"],
    ["shares.*.weight", "share.weight in pool *"],
    ["shares.*.guaranteedRatio", "share.guaranteed in pool *", ratio],
    ["shares.*.band", "priority in pool *"],
    ["concurrencyMax", "limits.concurrency"],
    ["requestsPerMinuteMax", "limits.requests_per_minute"],
    ["tokensPerMinuteMax", "limits.tokens_per_minute"],
    ["tokensPerMonthMax", "limits.tokens_per_month"],
    ["spendPerMonthMaxMicros", "limits.spend_per_month", amount],
    ["shards", "shards"],
    ["timeouts.totalMs", "timeouts.total", duration],
    ["timeouts.firstTokenMs", "timeouts.first_token", duration],
    ["timeouts.stallMs", "timeouts.stall", duration],
    ["cache.prompts", "cache.prompts"],
    ["cache.answers", "cache.answers"],
    ["cache.scope", "cache.scope"],
    ["attemptsMax", "attempts"],
    ["classes.*.className", "classes"],
    ...targets("classes.*.targets", "classes.*"),
    ["overload", "overload", steps],
    ["origins", "cors.origins"],
    ["continuation", "continuation"],
  ],
  key: [
    ["notBeforeAtMs", "not_before", day],
    ["expiresAtMs", "expires", day],
    ["scopes", "scopes"],
    ["modelIds", "models"],
    ["classNames", "classes"],
  ],
};

/**
 * Says what has changed of a thing in the words and units of `sluice.yaml`: `limits.concurrency: 4 -> 8`.
 * Returns undefined for what its surroundings say already, such as a tenant's name.
 */
export function fieldText(kind: RowKind, { path, before, after }: FieldChange): string | undefined {
  const names: string[] = [];
  const field = path.replaceAll(/\["((?:[^"\\]|\\.)*)"\]/g, (_all, name: string) => {
    names.push(JSON.parse(`"${name}"`));
    return ".*";
  });
  const [, words, unit = plain] = DICTIONARIES[kind].find(([known]) => known === field) ?? [
    field,
    field,
  ];
  if (words === undefined) return undefined;
  let at = 0;
  const named = words.replaceAll("*", () => names[at++] ?? "*");
  const text = (json: string | undefined): string =>
    json === undefined ? "nothing" : unit(JSON.parse(json));
  return before === undefined
    ? `${named}: ${text(after)}`
    : `${named}: ${text(before)} -> ${text(after)}`;
}

/** In the largest unit that has no decimals. */
function durationText(ms: number): string {
  const units = [
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1_000],
  ] as const;
  const [unit, size] = units.find(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

function stepText(step: unknown): string {
  const { kind, ratio: share, outputTokensMax, modelId } = Object(step);
  if (kind === "queue") return `queue: ${ratio(share)}`;
  if (kind === "clamp") return `clamp_max_tokens: ${plain(outputTokensMax)}`;
  return kind === "fallback" ? `fallback_model: ${plain(modelId)}` : plain(kind);
}
