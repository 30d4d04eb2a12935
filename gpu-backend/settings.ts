import { basename, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { isLoopbackHost } from "../src/base/loopback-host.ts";
import { refusalOf, RUNTIME_CHOICES } from "./engine/executor/runtime-choice.ts";
import type { Scheduling } from "./engine/scheduling.ts";
import { type Flag, readFlags } from "./read-flags.ts";

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

const SECRET_VARIABLE = "SLUICE_REPLICA_SECRET";
/** A shorter secret could be guessed; `sluice up` draws 32 random bytes. */
const SECRET_CHARACTERS_MIN = 16;
/** The attention kernel works on so many positions at a time. */
const BLOCK_TOKENS_STEP = 16;
/** The folder of the model that comes with the engine. */
export const BUNDLED_MODEL = fileURLToPath(new URL("./models/sluice-tiny", import.meta.url));

const FLAGS: Readonly<Record<string, Flag>> = {
  model: { argument: "DIR", help: "directory of the model (default: the bundled sluice-tiny)" },
  "model-name": { argument: "NAME", help: "what clients call it (default: the directory's name)" },
  host: { argument: "ADDRESS", help: "address to listen on", default: "127.0.0.1" },
  port: { argument: "N", help: "port to listen on, 0 for any free one", default: "9101" },
  precision: { argument: "int8|f32", help: "arithmetic of the weights", default: "int8" },
  "kv-precision": {
    argument: "int8|f32",
    help: "how keys and values are kept; int8 takes a fourth (default: as --precision)",
  },
  runtime: {
    argument: RUNTIME_CHOICES.join("|"),
    help: "what runs the model; auto: onnxruntime-node where it is installed, else wasm; webgpu: with f32",
    default: "auto",
  },
  "kv-blocks": {
    argument: "N",
    help: "blocks of the KV pool (default: 128 MiB, one context at least)",
  },
  "block-tokens": {
    argument: "N",
    help: "tokens of one KV block, a multiple of 16",
    default: "16",
  },
  "max-batch-tokens": { argument: "N", help: "tokens that one step may compute", default: "256" },
  "max-sequences": { argument: "N", help: "requests that may run at once", default: "16" },
  "max-queue": { argument: "N", help: "requests that may wait to run", default: "64" },
  "require-salt": { help: "refuse requests without the header x-gw-cache-salt" },
  policy: {
    argument: "fcfs|priority|least-slack",
    help: "who is served first",
    default: "fcfs",
  },
  "keep-tbt": {
    help: "shorten steps to the TBT targets of running requests; least-slack does unless prompts stay whole",
  },
  "no-chunked-prefill": {
    help: "compute a prompt in one step; the context is --max-batch-tokens at most",
  },
  "kv-admission": {
    argument: "known|past-future",
    help: "admit what fits now, or only what is expected to fit to its end",
    default: "known",
  },
  "kv-shares": {
    argument: "N",
    help: "divide the KV pool among N tenants: a request fits into a share, which others leave alone",
    default: "1",
  },
  isolation: {
    argument: "borrow|strict",
    help: "whether a tenant may use what others leave of their shares",
    default: "borrow",
  },
  "no-prefix-cache": { help: "compute every prompt from its first token on" },
  "pool-url": { argument: "URL", help: "pool to report to: ws(s)://HOST/internal/pools/POOL" },
  "advertise-url": {
    argument: "URL",
    help: "where the gateway reaches this engine (default: where it listens)",
  },
  "drain-ms": { argument: "MS", help: "time for running requests to finish in", default: "10000" },
  "exit-with-stdin": { help: "stop when standard input ends: a parent that dies leaves nothing" },
  help: { help: "print this text" },
};

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
  const { texts, switches, problems } = readFlags(argv, FLAGS);
  if (switches.has("help")) return { kind: "help", text: helpText() };
  const secret = environment[SECRET_VARIABLE] || undefined;
  const values = FlagValues.safeParse(texts);
  const allProblems = [
    ...problems,
    ...(values.error?.issues ?? []).map((issue) => {
      const flag = String(issue.path[0]);
      return `--${flag}: expected ${issue.message}, found "${texts[flag] ?? ""}"`;
    }),
    ...problemsOfSecret(secret, texts),
    ...problemsTogether(texts, switches),
  ];
  if (!values.success || allProblems.length > 0) return { kind: "invalid", problems: allProblems };
  return { kind: "settings", settings: toSettings(values.data, switches, secret) };
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
function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

function problemsTogether(
  texts: Readonly<Record<string, string>>,
  switches: ReadonlySet<string>,
): string[] {
  const problems: string[] = [];
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
  const { "kv-blocks": blocks, "kv-shares": shares = "" } = texts;
  if (blocks !== undefined && Number(blocks) < Number(shares)) {
    problems.push(`--kv-blocks: expected at least --kv-shares (${shares}), found "${blocks}"`);
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
  switches: ReadonlySet<string>,
  secret: string | undefined,
): Settings {
  const modelDirectory = resolve(values.model);
  const chunkedPrefill = !switches.has("no-chunked-prefill");
  return {
    modelDirectory,
    modelName: values["model-name"] ?? basename(modelDirectory),
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
    poolUrl: values["pool-url"],
    advertiseUrl: values["advertise-url"],
    drainMs: values["drain-ms"],
    exitWithStdin: switches.has("exit-with-stdin"),
    secret,
  };
}

function helpText(): string {
  const usages = Object.entries(FLAGS).map(
    ([name, flag]) => `--${name}${flag.argument === undefined ? "" : ` ${flag.argument}`}`,
  );
  const width = Math.max(...usages.map((usage) => usage.length));
  const lines = Object.values(FLAGS).map((flag, index) => {
    const ending = flag.default === undefined ? "" : ` (default: ${flag.default})`;
    return `  ${(usages[index] ?? "").padEnd(width)}  ${flag.help}${ending}`;
  });
  return [
    "Serves one model over an OpenAI-compatible API.",
    "",
    "Usage: npm run engine -- [FLAG …]",
    "",
    ...lines,
    "",
    "Environment:",
    `  ${SECRET_VARIABLE}  the secret shared with the gateway; without it the engine serves only`,
    "  this machine, to anyone on it",
    "",
  ].join("\n");
}
