import { join, relative, resolve } from "node:path";
import * as z from "zod";
import type { Command, Terminal } from "../command.ts";
import { CommandFailure, EXIT_CODES } from "../command.ts";
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
import { listDemoKeys } from "../stack/demo-keys.ts";
import type { EndingSources } from "../stack/endings.ts";
import { listenForEndings } from "../stack/endings.ts";
import { planGatewayChild, toLocalUrl } from "../stack/gateway-child.ts";
import type { PortNeed } from "../stack/ports.ts";
import { findPortProblems } from "../stack/ports.ts";
import { createRunFolder } from "../stack/run-folder.ts";
import { provideSecrets } from "../stack/secrets.ts";
import { runStack } from "../stack/stack.ts";
import type { StackEvent } from "../stack/stack-event.ts";
import { toTextLines } from "../stack/stack-event.ts";
import { StackFailure } from "../stack/stack-failure.ts";
import type { StackPlan } from "../stack/stack-plan.ts";
import { planStack, REPLICAS_MAX } from "../stack/stack-plan.ts";
import { PACKAGE_ROOT } from "../wrangler.ts";

const DEFAULT_FILE = "sluice.local.yaml";

const FLAGS = z.object({
  port: portNumber
    .default(8787)
    .register(FLAG_HELP, { placeholder: "PORT", meaning: "Port of the gateway (8787)" }),
  host: z.string().min(1, "Expected an address").default("127.0.0.1").register(FLAG_HELP, {
    placeholder: "ADDRESS",
    meaning: "Address the gateway listens on (127.0.0.1)",
  }),
  precision: z.enum(["int8", "f32"], "Expected int8 or f32").default("int8").register(FLAG_HELP, {
    placeholder: "int8|f32",
    meaning: "Arithmetic of the engines (int8)",
  }),
  model: z.string().min(1, "Expected a folder").optional().register(FLAG_HELP, {
    placeholder: "DIR",
    meaning: "Folder of the model that the engines load (the bundled sluice-tiny)",
  }),
  replicas: wholeNumber(1, REPLICAS_MAX).optional().register(FLAG_HELP, {
    placeholder: "N",
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
  help: `Starts one engine for every replica of FILE (sluice.local.yaml) that has a loopback URL, and the
gateway in front of them. Ctrl-C stops all of it; a second Ctrl-C does not wait.

${toHelpLines(FLAGS)}

Secrets are made anew in each run. Those that the environment sets are used instead:
SLUICE_KEY_PEPPER, SLUICE_CACHE_MASTER, SLUICE_ADMIN_KEY, SLUICE_REPLICA_SECRET.`,
  run: runUp,
};

async function runUp(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const secrets = provideSecrets(process.env);
  const source = await requireConfigurationFile(findFile(positionals[0]), {
    mode: "local",
    hashKey: keyHasher(secrets.SLUICE_KEY_PEPPER),
  });
  const planned = planStack(source.configuration, flags.replicas);
  if (planned.kind === "invalid") throw new CommandFailure(`${source.file}: ${planned.problem}`);
  const { plan } = planned;
  const portProblems = await findPortProblems(listPortNeeds(plan, source, flags));
  if (portProblems.length > 0) throw new CommandFailure(portProblems.join("\n"));

  const report = flags.json ? reportAsJson(terminal) : reportAsText(terminal);
  const address = { host: flags.host, port: flags.port };
  const { precision, model } = flags;
  const modelFolder = model === undefined ? undefined : resolve(model);
  const folder = createRunFolder();
  const sources: EndingSources = {
    signals: process,
    stdout: process.stdout,
    stdin: flags["exit-with-stdin"] ? process.stdin : undefined,
    readNowMs: () => performance.now(),
  };
  const endings = listenForEndings(sources, () => report({ event: "stopping" }));
  const onLine = (part: string, line: string) => {
    if (flags.verbose) terminal.complain(`[${part}] ${line}`);
  };
  try {
    await runStack(
      {
        plan,
        gateway: { address, childPlan: planGatewayChild(address, folder, secrets) },
        secrets,
        engineOptions: { precision, modelFolder },
        report,
        onLine,
      },
      endings,
      () => report(toReadyEvent(plan, source, toLocalUrl("http", address))),
    );
    report({ event: "stopped" });
    return EXIT_CODES.ok;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    const logTail = error instanceof StackFailure ? error.logTail : [];
    report({ event: "failed", sentence: error.message, logTail });
    return EXIT_CODES.failure;
  } finally {
    endings.release();
    folder.remove();
  }
}

/** Finds the file that is meant; since its path is shown, it is as short as it can be. */
function findFile(given: string | undefined): string {
  const file = given === undefined ? join(PACKAGE_ROOT, DEFAULT_FILE) : resolve(given);
  const short = relative(process.cwd(), file);
  return short.startsWith("..") ? file : short;
}

/** Lists the ports of a plan with what the user must change if one cannot be had. */
function listPortNeeds(plan: StackPlan, source: CheckedFile, flags: UpFlags): readonly PortNeed[] {
  const gateway: PortNeed = {
    host: flags.host,
    port: flags.port,
    needer: "the gateway",
    remedy: "choose another with --port",
  };
  const engines = plan.engines.map(({ name, poolId, endpointUrl, host, port }) => ({
    host,
    port,
    needer: `engine ${name}`,
    remedy: remedyOf(source, poolId, endpointUrl),
  }));
  return [gateway, ...engines];
}

function remedyOf(source: CheckedFile, poolId: string, endpointUrl: string): string {
  const pool = source.configuration.pools.find((each) => each.poolId === poolId);
  const index = pool?.replicas.findIndex((replica) => replica.endpointUrl === endpointUrl) ?? -1;
  if (index === -1) return "choose fewer with --replicas";
  const line = source.lineOf(["pools", poolId, "replicas", index, "url"]);
  return `change the URL at ${source.file}:${line}`;
}

function toReadyEvent(plan: StackPlan, source: CheckedFile, url: string): StackEvent {
  return {
    event: "ready",
    url,
    replicas: plan.engines.length,
    tenants: plan.configuration.tenants.length,
    file: source.file,
    demoKeys: listDemoKeys(source.document, plan.configuration),
  };
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
