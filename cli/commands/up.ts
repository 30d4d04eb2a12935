import { join, relative, resolve } from "node:path";
import * as z from "zod";
import { locateModel } from "../../gpu-backend/model-store/hub-cache.ts";
import { ROLES_KV_HOST_MIB } from "../../src/protocol/problem-of-roles.ts";
import { REPLICA_ROLES } from "../../src/protocol/engine-api.ts";
import { engineOf } from "../../src/tenants/live-configuration.ts";
import type { Command, Terminal } from "../command.ts";
import { CommandFailure, EXIT_CODES, messageOf, WrongUse } from "../command.ts";
import { buildEngine } from "../engine-build.ts";
import type { CheckedFile } from "../read-configuration.ts";
import { keyHasher, requireConfigurationFile } from "../read-configuration.ts";
import {
  FLAG_HELP,
  flagSwitch,
  parseWords,
  portNumber,
  toHelpLines,
  wholeNumber,
} from "../flags.ts";
import type { LocalRun } from "../run-file.ts";
import { leaveRunFile, RUN_FILE } from "../run-file.ts";
import { listDemoKeys, warnOfDemoKeys } from "../stack/demo-keys.ts";
import type { EndingSources } from "../stack/endings.ts";
import { listenForEndings } from "../stack/endings.ts";
import { planGatewayChild, toLocalUrl } from "../stack/gateway-child.ts";
import type { PortNeed } from "../stack/ports.ts";
import { findPortProblems } from "../stack/ports.ts";
import type { RunFolder } from "../stack/run-folder.ts";
import { createRunFolder } from "../stack/run-folder.ts";
import { providePoolSecrets, provideSecrets } from "../stack/secrets.ts";
import type { StackWiring } from "../stack/stack.ts";
import { runStack } from "../stack/stack.ts";
import type { StackEvent } from "../stack/stack-event.ts";
import { toTextLines } from "../stack/stack-event.ts";
import { StackFailure } from "../stack/stack-failure.ts";
import type { EnginePlan, StackPlan } from "../stack/stack-plan.ts";
import { planStack, REPLICAS_MAX } from "../stack/stack-plan.ts";
import { PACKAGE_ROOT } from "../wrangler.ts";

const DEFAULT_FILE = "sluice.local.yaml";
/** As an engine takes it. */
const KV_HOST_MIB_MAX = 1_000_000;
const Role = z.enum(REPLICA_ROLES);
const ROLES_EXPECTED = "Expected prefill, decode or mixed, with commas between them";
const RUNTIMES = ["auto", "wasm", "node", "webgpu"] as const;

const FLAGS = z.object({
  port: portNumber
    .default(8787)
    .register(FLAG_HELP, { valueName: "PORT", meaning: "Port of the gateway (8787)" }),
  host: z.string().min(1, "Expected an address").default("127.0.0.1").register(FLAG_HELP, {
    valueName: "ADDRESS",
    meaning: "Address the gateway listens on (127.0.0.1)",
  }),
  precision: z.enum(["int8", "f32"], "Expected int8 or f32").default("int8").register(FLAG_HELP, {
    valueName: "int8|f32",
    meaning: "Arithmetic of the engines (int8)",
  }),
  runtime: z
    .enum(RUNTIMES, "Expected auto, wasm, node or webgpu")
    .default("auto")
    .register(FLAG_HELP, {
      valueName: RUNTIMES.join("|"),
      meaning:
        "What runs the models (auto: onnxruntime-node where it is installed; webgpu needs f32)",
    }),
  "kv-host-mib": wholeNumber(0, KV_HOST_MIB_MAX)
    .optional()
    .register(FLAG_HELP, {
      valueName: "N",
      meaning: `Memory of each engine for KV that its pool evicts or that others have computed (0; with --roles ${ROLES_KV_HOST_MIB})`,
    }),
  roles: z
    .string()
    // Said once, however many of them are wrong.
    .refine((text) => text.split(",").every((role) => Role.safeParse(role).success), {
      error: ROLES_EXPECTED,
      abort: true,
    })
    .transform((text) => text.split(","))
    .pipe(z.array(Role))
    .optional()
    .register(FLAG_HELP, {
      valueName: "ROLE,…",
      meaning: "What each engine is for: prefill, decode or mixed; as many as there are engines",
    }),
  model: z.string().min(1, "Expected a folder or ORG/NAME").optional().register(FLAG_HELP, {
    valueName: "DIR|ORG/NAME",
    meaning: "Model that the engines load: a folder, or what was pulled (the bundled sluice-tiny)",
  }),
  replicas: wholeNumber(1, REPLICAS_MAX).optional().register(FLAG_HELP, {
    valueName: "N",
    meaning: "Number of engines (as many as the file lists)",
  }),
  json: flagSwitch("Print events as JSON, one object a line"),
  verbose: flagSwitch("Print what gateway and engines write, to stderr"),
  "exit-with-stdin": flagSwitch("Stop when stdin ends, for programs that start this one"),
});
type UpFlags = z.output<typeof FLAGS>;

/** `sluice up`: a gateway and its engines on this machine, from one file. */
export const upCommand: Command = {
  name: "up",
  synopsis: "[FILE] [flags]",
  summary: "Start the gateway and its engines on this machine",
  help: `Starts one engine for every replica of FILE (sluice.local.yaml) that has a loopback URL and is of
engine sluice, and the gateway in front of all replicas. Ctrl-C stops all of it once the requests that run have ended, after 10 s at
the latest; a second Ctrl-C does not wait. An engine that dies is started again; its fourth death
within a minute ends everything, and so does the gateway's first.

${toHelpLines(FLAGS)}

Secrets are made anew in each run. Those that the environment sets are used instead:
SLUICE_KEY_PEPPER, SLUICE_CACHE_MASTER, SLUICE_ADMIN_KEY, SLUICE_REPLICA_SECRET, or files that it names as
SLUICE_KEY_PEPPER_FILE and so on. What a pool names as its auth has to be there, in one way or the other. While it runs,
${RUN_FILE} lets other commands find them with --local.`,
  run: runUp,
};

async function runUp(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const secrets = provideSecrets(process.env);
  const source = await requireConfigurationFile(findFile(positionals[0]), {
    mode: "local",
    hashKey: keyHasher(secrets.SLUICE_KEY_PEPPER),
  });
  if (flags.roles !== undefined && flags["kv-host-mib"] === 0) {
    throw new WrongUse("--kv-host-mib: expected more than 0 with --roles, through which KV comes");
  }
  const planned = planStack(source.configuration, flags.replicas, flags.roles);
  if (planned.kind === "invalid") throw new CommandFailure(`${source.file}: ${planned.problem}`);
  const { plan } = planned;
  const poolSecrets = providePoolSecrets(plan.configuration, process.env);
  const modelFolder = flags.model === undefined ? undefined : findModel(flags.model);
  const toPortNeed = (engine: EnginePlan) => toEnginePortNeed(engine, source);
  const portNeeds = [toGatewayPortNeed(flags), ...plan.engines.map(toPortNeed)];
  const portProblems = await findPortProblems(portNeeds);
  if (portProblems.length > 0) throw new CommandFailure(portProblems.join("\n"));

  const ready = toReadyEvent(plan, source, toLocalUrl("http", flags));
  const warning = warnOfDemoKeys(flags.host, ready.demoKeys);
  if (warning !== undefined) terminal.complain(warning);
  const parts = { plan, toPortNeed, secrets, poolSecrets, ready, modelFolder };
  return runToTheEnd(parts, flags, terminal);
}

type RunParts = Pick<StackWiring, "plan" | "toPortNeed" | "secrets"> & {
  readonly poolSecrets: Readonly<Record<string, string>>;
  readonly ready: ReadyEvent;
  readonly modelFolder: string | undefined;
};

/** Runs the stack until it is stopped or lost, tells what happens and returns the exit code. */
async function runToTheEnd(
  { ready, poolSecrets, modelFolder, ...parts }: RunParts,
  flags: UpFlags,
  terminal: Terminal,
): Promise<number> {
  const report = flags.json ? reportAsJson(terminal) : reportAsText(terminal);
  const folder = createRunFolder();
  const buildFolder = join(folder.path, "engine");
  const address = { host: flags.host, port: flags.port };
  const wiring: StackWiring = {
    ...parts,
    gateway: { address, childPlan: planGatewayChild(address, folder, parts.secrets, poolSecrets) },
    engineOptions: {
      precision: flags.precision,
      runtime: flags.runtime,
      kvHostMib: flags["kv-host-mib"] ?? (flags.roles === undefined ? 0 : ROLES_KV_HOST_MIB),
      modelFolder,
      buildFolder,
    },
    report,
    onLine: (part, line) => {
      if (flags.verbose) terminal.complain(`[${part}] ${line}`);
    },
  };
  const endings = listenForEndings(endingSources(flags), () => report({ event: "stopping" }));
  let takeRunFileAway: (() => void) | undefined;
  try {
    if (parts.plan.engines.length > 0) await buildEngine(buildFolder);
    await runStack(wiring, endings, () => {
      const run = { pid: process.pid, url: ready.url, secrets: parts.secrets };
      takeRunFileAway = leaveRunFileIfPossible(folder, run, terminal);
      report(ready);
    });
    report({ event: "stopped" });
    return EXIT_CODES.ok;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    const logTail = error instanceof StackFailure ? error.logTail : [];
    report({ event: "failed", sentence: error.message, logTail });
    return EXIT_CODES.failure;
  } finally {
    endings.release();
    takeRunFileAway?.();
    folder.remove();
  }
}

function findModel(text: string): string {
  const model = locateModel(text, process.env);
  if (model.kind === "located") return model.directory;
  throw new CommandFailure(`--model: there is no ${text}: ${model.advice}`);
}

function endingSources(flags: UpFlags): EndingSources {
  return {
    signals: process,
    stdout: process.stdout,
    stdin: flags["exit-with-stdin"] ? process.stdin : undefined,
    readNowMs: () => performance.now(),
  };
}

/** A folder that cannot be written to costs other commands their `--local`, not the run. */
function leaveRunFileIfPossible(folder: RunFolder, run: LocalRun, terminal: Terminal) {
  try {
    return leaveRunFile(process.cwd(), folder, run);
  } catch (error) {
    terminal.complain(`Warning: --local will not find this run: ${messageOf(error)}`);
    return undefined;
  }
}

/** Finds the file that is meant; since its path is shown, it is as short as it can be. */
function findFile(given: string | undefined): string {
  const file = given === undefined ? join(PACKAGE_ROOT, DEFAULT_FILE) : resolve(given);
  const short = relative(process.cwd(), file);
  return short.startsWith("..") ? file : short;
}

function toGatewayPortNeed({ host, port }: UpFlags): PortNeed {
  return {
    host,
    port,
    needer: "the gateway",
    remedy: "choose another with --port",
    hostRemedy: "choose another with --host",
  };
}

function toEnginePortNeed(engine: EnginePlan, source: CheckedFile): PortNeed {
  const { name, poolId, endpointUrl, host, port } = engine;
  const remedy = remedyOf(source, poolId, endpointUrl);
  return { host, port, needer: `engine ${name}`, remedy, hostRemedy: remedy };
}

function remedyOf(source: CheckedFile, poolId: string, endpointUrl: string): string {
  const pool = source.configuration.pools.find((each) => each.poolId === poolId);
  const index = pool?.replicas.findIndex((replica) => replica.endpointUrl === endpointUrl) ?? -1;
  if (index === -1) return "choose fewer with --replicas";
  const line = source.lineOf(["pools", poolId, "replicas", index, "url"]);
  return `change the URL at ${source.file}:${line}`;
}

type ReadyEvent = Extract<StackEvent, { event: "ready" }>;

function toReadyEvent(plan: StackPlan, source: CheckedFile, url: string): ReadyEvent {
  return {
    event: "ready",
    url,
    replicas: plan.engines.length + countForeign(plan),
    tenants: plan.configuration.tenants.length,
    file: source.file,
    demoKeys: listDemoKeys(source.document, plan.configuration),
  };
}

function countForeign({ configuration }: StackPlan): number {
  const foreign = configuration.pools.flatMap((pool) =>
    pool.replicas.filter((replica) => engineOf(pool, replica) !== "sluice"),
  );
  return foreign.length;
}

const reportAsJson = (terminal: Terminal) => (event: StackEvent) =>
  terminal.print(JSON.stringify(event));

const reportAsText = (terminal: Terminal) => (event: StackEvent) => {
  const isTrouble = event.event === "failed" || event.event === "engine-died";
  for (const line of toTextLines(event)) {
    if (isTrouble) terminal.complain(line);
    else terminal.print(line);
  }
};
