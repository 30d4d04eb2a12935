import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import * as z from "zod";
import { Child } from "../cli/stack/child.ts";
import { pollUntil } from "../cli/stack/poll.ts";
import { createRunFolder } from "../cli/stack/run-folder.ts";
import { PACKAGE_ROOT } from "../cli/wrangler.ts";
import { countFlag } from "../cli/flags.ts";
import { takeFreePorts } from "../test/support/free-ports.ts";
import { describeMachine } from "./support/machine.ts";
import { cpuMsOf, findProcess } from "./support/process-cpu.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "../simulator/statistics.ts";
import { workerdBinary } from "./support/workerd-child.ts";

const FLAGS = z.object({
  repeats: countFlag({ min: 3, max: 1_000, default: 15 }, "Samples of each length of a prompt"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:prompt-keys -- [flags]

Measures in workerd what it costs to derive the keys of one prompt (namespace, salt, route, and a hash for each
512 bytes up to 128 KiB), by the prompt's length: processor time of the whole process. All lengths take turns.
Prints Markdown.`;

const KIB = 1_024;
const LENGTHS = [2, 16, 128, 1_024].map((kib) => kib * KIB);
/** About so much work a sample, since a process's time is told in hundredths of a second. */
const SAMPLE_BYTES = 32 * 1_024 * KIB;
const TIMES_MAX = 2_000;
const READY_WITHIN_MS = 20_000;

async function runBenchmark({ repeats }: Flags): Promise<string> {
  const machine = describeMachine(["workerd"]);
  const samples = await withKeysWorker(async (url, cpuMs) => {
    const byLength = new Map(LENGTHS.map((bytes): [number, number[]] => [bytes, []]));
    for (let repeat = -1; repeat < repeats; repeat += 1) {
      for (const [bytes, costsMs] of byLength) {
        const times = Math.min(TIMES_MAX, Math.ceil(SAMPLE_BYTES / bytes));
        const atStartMs = cpuMs();
        // oxlint-disable-next-line no-await-in-loop -- one after the other
        await (await fetch(`${url}/?bytes=${bytes}&times=${times}`)).text();
        if (repeat >= 0) costsMs.push((cpuMs() - atStartMs) / times);
      }
    }
    return byLength;
  });
  return [
    "# What a prompt's keys cost",
    "",
    `\`npm run bench:prompt-keys -- --repeats ${repeats}\``,
    "",
    machine,
    `- ${repeats} samples of each length, by processor time of workerd; medians with the quartiles around them`,
    "",
    "| prompt | ms a request | from | to |",
    "|---|---:|---:|---:|",
    ...[...samples].map(([bytes, costsMs]) => {
      const cells = [0.5, 0.25, 0.75].map((ratio) => quantileOf(costsMs, ratio).toFixed(3));
      return `| ${bytes / KIB} KiB | ${cells.join(" | ")} |`;
    }),
  ].join("\n");
}

async function withKeysWorker<Result>(
  measure: (url: string, cpuMs: () => number) => Promise<Result>,
): Promise<Result> {
  const [port = 0] = await takeFreePorts(1);
  const folder = createRunFolder();
  const entry = join(import.meta.dirname, "support", "keys-worker.js");
  await build({
    entryPoints: [entry],
    bundle: true,
    format: "esm",
    external: ["node:*"],
    outfile: join(folder.path, "keys.js"),
    logLevel: "error",
  });
  const configFile = join(folder.path, "keys.capnp");
  writeFileSync(configFile, toConfig(port));
  const command = [workerdBinary(), "serve", configFile];
  const child = new Child({
    command: [process.execPath, join(PACKAGE_ROOT, "cli", "keeper.mjs"), folder.path, ...command],
    folder: folder.path,
    environment: { PATH: process.env["PATH"] },
    onLine: () => undefined,
  });
  try {
    const url = `http://127.0.0.1:${port}`;
    const answers = async (): Promise<boolean> => {
      const response = await fetch(url).catch(() => undefined);
      await response?.arrayBuffer();
      return response !== undefined;
    };
    await pollUntil(answers, AbortSignal.timeout(READY_WITHIN_MS));
    const pid = findProcess(command);
    return await measure(url, () => (pid === undefined ? Number.NaN : cpuMsOf(pid)));
  } finally {
    await child.stop();
    folder.remove();
  }
}

function toConfig(port: number): string {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "keys.js", esModule = embed "keys.js")],
  compatibilityDate = "2026-04-26",
  compatibilityFlags = ["nodejs_compat"],
);
`;
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
