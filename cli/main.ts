import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Command, Terminal } from "./command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "./command.ts";
import { applyCommand } from "./commands/apply.ts";
import { benchCommand } from "./commands/bench.ts";
import { buildCommand } from "./commands/build.ts";
import { calibrateCommand } from "./commands/calibrate.ts";
import { checkCommand } from "./commands/check.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { hashKeyCommand } from "./commands/hash-key.ts";
import { planCommand } from "./commands/plan.ts";
import { poolsCommand } from "./commands/pools.ts";
import { replayCommand } from "./commands/replay.ts";
import { schemaCommand } from "./commands/schema.ts";
import { sloCommand } from "./commands/slo.ts";
import { diffCommand, historyCommand, rollbackCommand } from "./commands/history.ts";
import { modelsCommand } from "./commands/models.ts";
import { keysCommand } from "./commands/keys.ts";
import { tenantsCommand } from "./commands/tenants.ts";
import { upCommand } from "./commands/up.ts";
import { usageCommand } from "./commands/usage.ts";
import { PACKAGE_ROOT } from "./wrangler.ts";

const COMMANDS: readonly Command[] = [
  upCommand,
  checkCommand,
  applyCommand,
  diffCommand,
  historyCommand,
  rollbackCommand,
  tenantsCommand,
  keysCommand,
  poolsCommand,
  usageCommand,
  modelsCommand,
  hashKeyCommand,
  doctorCommand,
  benchCommand,
  replayCommand,
  planCommand,
  calibrateCommand,
  schemaCommand,
  sloCommand,
  buildCommand,
];

/**
 * Runs one command line, without the words that started Node, and returns its exit code: 0 done,
 * 1 not done, 2 wrong use. Whatever a command throws that is neither is a bug and is thrown on.
 */
export async function runCommandLine(
  words: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const [name, ...rest] = words;
  if (name === undefined) {
    terminal.complain(overview());
    return EXIT_CODES.wrongUse;
  }
  if (name === "--version") {
    terminal.print(readVersion());
    return EXIT_CODES.ok;
  }
  // `sluice help apply` is `sluice apply --help` for those who ask in that order.
  const asksForHelp = name === "help" || isHelp(name);
  const commandName = asksForHelp ? rest.find((word) => !isHelp(word)) : name;
  if (commandName === undefined) {
    terminal.print(overview());
    return EXIT_CODES.ok;
  }
  const command = COMMANDS.find((candidate) => candidate.name === commandName);
  if (command === undefined) {
    terminal.complain(`Unknown command "${commandName}"\n\n${overview()}`);
    return EXIT_CODES.wrongUse;
  }
  if (asksForHelp || rest.some(isHelp)) {
    terminal.print(`Usage: sluice ${command.name} ${command.synopsis}\n\n${command.help}`);
    return EXIT_CODES.ok;
  }
  return runCommand(command, rest, terminal);
}

/** Runs the command line of this very invocation and leaves its exit code to Node. */
export async function main(): Promise<void> {
  // A connection whose other end is closed holds no process, and what waits for it would end in silence.
  const untilDone = setInterval(() => {}, 60_000);
  try {
    process.exitCode = await runCommandLine(process.argv.slice(2), {
      print: (line) => process.stdout.write(`${line}\n`),
      complain: (line) => process.stderr.write(`${line}\n`),
    });
  } finally {
    clearInterval(untilDone);
  }
}

async function runCommand(
  command: Command,
  words: readonly string[],
  terminal: Terminal,
): Promise<number> {
  try {
    return await command.run(words, terminal);
  } catch (error) {
    if (error instanceof WrongUse) {
      terminal.complain(`${error.message}\nSee: sluice ${command.name} --help`);
      return EXIT_CODES.wrongUse;
    }
    if (error instanceof CommandFailure) {
      terminal.complain(error.message);
      return EXIT_CODES.failure;
    }
    throw error;
  }
}

const Manifest = z.object({ version: z.string() });

function readVersion(): string {
  const manifest = readFileSync(join(PACKAGE_ROOT, "package.json"), "utf8");
  return Manifest.parse(JSON.parse(manifest)).version;
}

function overview(): string {
  const width = Math.max(...COMMANDS.map((command) => command.name.length)) + 2;
  const lines = COMMANDS.map((command) => `  ${command.name.padEnd(width)}${command.summary}`);
  return [
    "Usage: sluice COMMAND",
    "",
    ...lines,
    "",
    "Each command explains itself: sluice help COMMAND",
    "The version of all of it: sluice --version",
  ].join("\n");
}

const isHelp = (word: string) => word === "--help" || word === "-h";
