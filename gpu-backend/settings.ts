import { basename, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { isLoopbackHost } from "../src/base/loopback-host.ts";
import { REPLICA_ROLES, type ReplicaRole } from "../src/protocol/engine-api.ts";
import { refusalOf, RUNTIME_CHOICES } from "./engine/executor/runtime-choice.ts";
import type { Scheduling } from "./engine/scheduling.ts";
import { SPECULATION_MODES, type Speculating } from "./engine/speculation/speculating.ts";
import type { KvTierSettings } from "./kv-tiers/open-kv-tiers.ts";
import { withoutSlash } from "./server/engine-headers.ts";
import { problemsOfKv } from "./kv-flag-problems.ts";
import { FLAGS, helpText, SECRET_VARIABLE } from "./flags.ts";
import { type LocatedModel, locateModel } from "./model-store/hub-cache.ts";
import type { GivenFlags } from "./read-flags.ts";
import { readFlags } from "./read-flags.ts";

/** What one engine is started with. */
export interface Settings {
  readonly modelDirectory: string;
  readonly modelName: string;
  readonly host: string;
  readonly port: number;
  readonly precision: "int8" | "f32";
  /** Absent: as `precision` says. */
  readonly kvPrecision: "int8" | "f32" | undefined;
  readonly runtime: (typeof RUNTIME_CHOICES)[number];
  /** Absent: as many as the default KV memory holds. */
  readonly blockCount: number | undefined;
  readonly blockTokens: number;
  readonly batchTokensMax: number;
  readonly sequencesMax: number;
  readonly queueMax: number;
  readonly requireSalt: boolean;
  readonly prefixCache: boolean;
  readonly scheduling: Scheduling;
  readonly speculating: Speculating;
  /** Absent: what the KV pool evicts is gone. */
  readonly kvTiers: KvTierSettings | undefined;
  /** Engines that KV may be fetched from, each as the gateway names it. */
  readonly kvPeers: readonly string[];
  /** What the pool is told that this engine is for. */
  readonly role: ReplicaRole;
  readonly poolUrl: string | undefined;
  /** Absent: the address that the engine listens on. */
  readonly advertiseUrl: string | undefined;
  readonly drainMs: number;
  readonly exitWithStdin: boolean;
  /** What the gateway and this engine know each other by. */
  readonly secret: string | undefined;
}

export type ParsedSettings =
  | { readonly kind: "settings"; readonly settings: Settings }
  | { readonly kind: "help"; readonly text: string }
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** A shorter secret could be guessed; `sluice up` draws 32 random bytes. */
const SECRET_CHARACTERS_MIN = 16;
/** The attention kernel works on so many positions at a time. */
const BLOCK_TOKENS_STEP = 16;
const MIB = 2 ** 20;
/** As many as a pool has replicas. */
const KV_PEERS_MAX = 128;
/** The folder of the model that comes with the engine. */
export const BUNDLED_MODEL = fileURLToPath(new URL("./models/sluice-tiny", import.meta.url));
/** The folder of its draft model. */
export const BUNDLED_DRAFT = fileURLToPath(new URL("./models/sluice-tiny-draft", import.meta.url));

const integer = (min: number, max: number) => {
  const expected = `an integer from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, expected)
    .transform(Number)
    .pipe(z.int().min(min, expected).max(max, expected));
};

const urlOf = (protocol: RegExp, expected: string) =>
  z.url({ protocol, error: expected }).max(512, `${expected}, of at most 512 characters`);

const urlListOf = (protocol: RegExp, expected: string) =>
  z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(urlOf(protocol, expected)).max(KV_PEERS_MAX, `at most ${KV_PEERS_MAX} of them`));

/** The text of each flag to its value; a message completes the sentence "expected …". */
const FlagValues = z.object({
  model: z.string().min(1, "a directory").default(BUNDLED_MODEL),
  "model-name": z.string().min(1, "a name").max(256, "a name of at most 256 characters").optional(),
  host: z.string().min(1, "an address"),
  port: integer(0, 65_535),
  precision: z.enum(["int8", "f32"], "int8 or f32"),
  "kv-precision": z.enum(["int8", "f32"], "int8 or f32").optional(),
  runtime: z.enum(RUNTIME_CHOICES, "auto, wasm, node or webgpu"),
  "kv-blocks": integer(2, 10_000_000).optional(),
  "block-tokens": integer(16, 1024).refine(
    (tokens) => tokens % BLOCK_TOKENS_STEP === 0,
    `a multiple of ${BLOCK_TOKENS_STEP}`,
  ),
  "max-batch-tokens": integer(1, 65_536),
  "max-sequences": integer(1, 1024),
  "max-queue": integer(1, 100_000),
  policy: z.enum(["fcfs", "priority", "least-slack"], "fcfs, priority or least-slack"),
  "kv-admission": z.enum(["known", "past-future"], "known or past-future"),
  "kv-shares": integer(1, 256),
  "kv-host-mib": integer(0, 1_000_000),
  "kv-disk": z.string().min(1, "a folder").optional(),
  "kv-disk-mib": integer(1, 10_000_000),
  "kv-peers": urlListOf(
    /^https?$/,
    "URLs such as http://HOST:PORT, with commas between them",
  ).default([]),
  role: z.enum(REPLICA_ROLES, "prefill, decode or mixed"),
  speculation: z.enum(SPECULATION_MODES, "off, lookup, draft or auto"),
  "draft-model": z.string().min(1, "a directory").optional(),
  "max-draft-tokens": integer(1, 64),
  isolation: z.enum(["borrow", "strict"], "borrow or strict"),
  "pool-url": urlOf(/^wss?$/, "a URL such as ws://HOST/internal/pools/POOL").optional(),
  "advertise-url": urlOf(/^https?$/, "a URL such as http://HOST:PORT").optional(),
  "drain-ms": integer(0, 3_600_000),
});

/**
 * Reads the command line and the environment. All that is wrong is told at once, each problem with
 * its flag, what was found and what would be right; the secret's value is never repeated.
 */
export function parseSettings(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ParsedSettings {
  const flags = readFlags(argv, FLAGS);
  const { texts, switches } = flags;
  if (switches.has("help")) return { kind: "help", text: helpText() };
  const secret = environment[SECRET_VARIABLE] || undefined;
  const values = FlagValues.safeParse(texts);
  const allProblems = [
    ...flags.problems,
    ...(values.error?.issues ?? []).map((issue) => {
      const flag = String(issue.path[0]);
      return `--${flag}: expected ${issue.message}, found "${texts[flag] ?? ""}"`;
    }),
    ...problemsOfSecret(secret, texts),
    ...problemsTogether(flags),
  ];
  const model = locateModel(values.data?.model ?? BUNDLED_MODEL, environment);
  if (model.kind === "missing") {
    allProblems.push(
      `--model: expected a directory or a model that was pulled, found "${texts["model"]}"; ${model.advice}`,
    );
  }
  if (!values.success || model.kind === "missing" || allProblems.length > 0) {
    return { kind: "invalid", problems: allProblems };
  }
  return { kind: "settings", settings: toSettings(values.data, { model, switches, secret }) };
}

function problemsOfSecret(
  secret: string | undefined,
  texts: Readonly<Record<string, string>>,
): string[] {
  if (secret === undefined) {
    const reasons = [
      ...(isLoopbackHost(texts["host"] ?? "")
        ? []
        : [`--host ${texts["host"]} is reachable by others`]),
      ...(texts["pool-url"] === undefined ? [] : ["--pool-url needs it to be let in"]),
      ...(texts["kv-peers"] === undefined ? [] : ["--kv-peers needs it to be let in there"]),
      ...(texts["role"] === "prefill" ? ["--role prefill needs it to let others in"] : []),
    ];
    return reasons.map(
      (reason) => `${SECRET_VARIABLE}: expected in the environment, since ${reason}`,
    );
  }
  if (/^[\x21-\x7e]+$/.test(secret) && secret.length >= SECRET_CHARACTERS_MIN) return [];
  return [
    `${SECRET_VARIABLE}: expected at least ${SECRET_CHARACTERS_MIN} printable ASCII characters ` +
      `without spaces, found ${secret.length} characters`,
  ];
}

/** Addresses to listen on, all of the machine's, that are none to connect to. */
export function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

function isBundled(model: string | undefined): boolean {
  return model === undefined || resolve(model) === BUNDLED_MODEL;
}

function problemsTogether(flags: GivenFlags): string[] {
  const { texts, switches } = flags;
  const problems = problemsOfKv(flags);
  if (switches.has("no-chunked-prefill") && switches.has("keep-tbt")) {
    problems.push(
      "--keep-tbt: expected without --no-chunked-prefill, since it cuts prompts to fit",
    );
  }
  const { "max-batch-tokens": batchTokens = "", "max-sequences": sequences = "" } = texts;
  // Each running request needs a token of every step, or some would starve behind the others.
  if (Number(batchTokens) < Number(sequences)) {
    problems.push(
      `--max-batch-tokens: expected at least --max-sequences (${sequences}), found "${batchTokens}"`,
    );
  }
  const { speculation, model, "draft-model": draftModel } = texts;
  if (draftModel !== undefined && speculation !== "draft" && speculation !== "auto") {
    problems.push("--draft-model: expected with --speculation draft or auto, which alone use it");
  }
  if (speculation === "draft" && draftModel === undefined && !isBundled(model)) {
    problems.push(
      "--draft-model: expected with --speculation draft for a model that has none here",
    );
  }
  if (texts["runtime"] === "webgpu" && texts["precision"] === "int8") {
    problems.push(`--runtime: ${refusalOf("webgpu", "int8")}`);
  }
  const { host = "", "pool-url": poolUrl, "advertise-url": advertiseUrl } = texts;
  if (poolUrl !== undefined && advertiseUrl === undefined && isWildcard(host)) {
    problems.push(
      `--advertise-url: expected with --pool-url, since nobody reaches an engine at ${host}`,
    );
  }
  return problems;
}

function toSettings(
  values: z.infer<typeof FlagValues>,
  {
    model,
    switches,
    secret,
  }: {
    readonly model: Extract<LocatedModel, { kind: "located" }>;
    readonly switches: ReadonlySet<string>;
    readonly secret: string | undefined;
  },
): Settings {
  const { directory: modelDirectory } = model;
  const chunkedPrefill = !switches.has("no-chunked-prefill");
  return {
    modelDirectory,
    modelName: values["model-name"] ?? model.name ?? basename(modelDirectory),
    host: values.host,
    port: values.port,
    precision: values.precision,
    kvPrecision: values["kv-precision"],
    runtime: values.runtime,
    blockCount: values["kv-blocks"],
    blockTokens: values["block-tokens"],
    batchTokensMax: values["max-batch-tokens"],
    sequencesMax: values["max-sequences"],
    queueMax: values["max-queue"],
    requireSalt: switches.has("require-salt"),
    prefixCache: !switches.has("no-prefix-cache"),
    scheduling: {
      policy: values.policy,
      chunkedPrefill,
      keepsTbt: switches.has("keep-tbt") || (values.policy === "least-slack" && chunkedPrefill),
      kvAdmission: values["kv-admission"],
      kvShares: values["kv-shares"],
      isolation: values.isolation,
    },
    speculating: {
      mode: values.speculation,
      draftTokensMax: values["max-draft-tokens"],
      draftModelDirectory: draftDirectoryOf(values),
    },
    kvTiers: kvTiersOf(values),
    kvPeers: values["kv-peers"].map(withoutSlash),
    role: values.role,
    poolUrl: values["pool-url"],
    advertiseUrl: values["advertise-url"],
    drainMs: values["drain-ms"],
    exitWithStdin: switches.has("exit-with-stdin"),
    secret,
  };
}

/** Absent where no draft model is used, or there is none. */
function draftDirectoryOf(values: z.infer<typeof FlagValues>): string | undefined {
  if (values.speculation !== "draft" && values.speculation !== "auto") return undefined;
  const given = values["draft-model"];
  if (given !== undefined) return resolve(given);
  return isBundled(values.model) ? BUNDLED_DRAFT : undefined;
}

function kvTiersOf(values: z.infer<typeof FlagValues>): KvTierSettings | undefined {
  if (values["kv-host-mib"] === 0) return undefined;
  const folder = values["kv-disk"];
  return {
    memoryBytes: values["kv-host-mib"] * MIB,
    disk:
      folder === undefined
        ? undefined
        : { folder: resolve(folder), bytes: values["kv-disk-mib"] * MIB },
  };
}
