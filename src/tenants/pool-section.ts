import * as z from "zod";
import { ENGINES } from "../protocol/engine-kind.ts";
import { normalizeEndpointUrl } from "./endpoint-url.ts";
import {
  amountNotation,
  boundedDurationNotation,
  ModelName,
  NAME_PATTERN,
  parseName,
} from "./file-notations.ts";
import { CONFIGURATION_LIMITS } from "./live-configuration.ts";
import { PRICE_MICROS_MAX } from "./model-price.ts";
import {
  choiceNotation,
  countNotation,
  notation,
  section,
  switchNotation,
  textNotation,
} from "./notation.ts";
import { isSecretName } from "./secret-name.ts";

const {
  aliasesMax,
  contextTokensMax,
  cooldownMsMax,
  cooldownMsMin,
  ejectAfterMax,
  modelsMax,
  queueMax,
  replicasPerPoolMax,
  replicaWeightMax,
  requestsMax,
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

const ALIASES = `a list of at most ${aliasesMax} further names`;

const PoolName = textNotation("the name of a pool", parseName, { pattern: NAME_PATTERN });

export const ModelSection = section({
  context: countNotation("tokens", { min: 1, max: contextTokensMax }),
  pool: PoolName,
  upstream: ModelName.exactOptional(),
  max_running: Requests.exactOptional(),
  price_per_million_tokens: PriceSection.exactOptional(),
  aliases: z.array(ModelName, ALIASES).max(aliasesMax, ALIASES).exactOptional(),
});
export type ModelSection = z.infer<typeof ModelSection>;

const MODELS = `a list of 1 to ${modelsMax} models of its pool`;

const EngineName = choiceNotation(ENGINES);

export const ReplicaSection = section({
  url: textNotation(
    "a URL such as http://10.0.0.7:9101, without credentials, query or fragment",
    normalizeEndpointUrl,
  ),
  engine: EngineName.exactOptional(),
  max_running: Requests.exactOptional(),
  models: z.array(ModelName, MODELS).min(1, MODELS).max(modelsMax, MODELS).exactOptional(),
  weight: countNotation("parts", { min: 1, max: replicaWeightMax }).exactOptional(),
  priorities: switchNotation().exactOptional(),
});

const secretNotation = (example: string) =>
  textNotation(
    `the name of a secret of the Worker in capitals, such as ${example}, and none of SLUICE_…`,
    (text) => (isSecretName(text) ? text : undefined),
  );

export const AuthSection = section({ secret: secretNotation("GPU_POOL_TOKEN") });

/** A service token of Cloudflare Access. */
export const AccessSection = section({
  client_id: secretNotation("GPU_ACCESS_ID"),
  client_secret: secretNotation("GPU_ACCESS_SECRET"),
});

const BindingName = textNotation(
  "the name of a binding of the Worker in capitals, such as GPU_VPC, and none of SLUICE_…",
  (text) => (isSecretName(text) ? text : undefined),
);

export const HealthSection = section({
  eject_after: countNotation("failures in a row", { min: 1, max: ejectAfterMax }).exactOptional(),
  cooldown_max: boundedDurationNotation("a duration from 100ms to 1h, such as 3s", {
    minMs: cooldownMsMin,
    maxMs: cooldownMsMax,
  }).exactOptional(),
  probe: notation(
    "passive (replicas are probed by real requests)",
    (found) => (found === "passive" ? found : undefined),
    { const: "passive" },
  ).exactOptional(),
});

const REPLICAS = `a list of 1 to ${replicasPerPoolMax} replicas`;

export const PoolSection = section({
  engine: EngineName,
  replicas: z.array(ReplicaSection, REPLICAS).min(1, REPLICAS).max(replicasPerPoolMax, REPLICAS),
  priorities: switchNotation().exactOptional(),
  queue_max: countNotation("requests", { min: 0, max: queueMax }).exactOptional(),
  auth: AuthSection.exactOptional(),
  access: AccessSection.exactOptional(),
  via: BindingName.exactOptional(),
  health: HealthSection.exactOptional(),
});
