import type { Command, Terminal } from "./command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "./command.ts";
import { applyCommand } from "./commands/apply.ts";
import { buildCommand } from "./commands/build.ts";
import { checkCommand } from "./commands/check.ts";
import { upCommand } from "./commands/up.ts";

const COMMANDS: readonly Command[] = [upCommand, checkCommand, applyCommand, buildCommand];

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
  if (isHelp(name) || name === "help") {
    terminal.print(overview());
    return EXIT_CODES.ok;
  }
  const command = COMMANDS.find((candidate) => candidate.name === name);
  if (command === undefined) {
    terminal.complain(`Unknown command "${name}"\n\n${overview()}`);
    return EXIT_CODES.wrongUse;
  }
  if (rest.some(isHelp)) {
    terminal.print(`Usage: sluice ${command.name} ${command.synopsis}\n\n${command.help}`);
    return EXIT_CODES.ok;
  }
  return runCommand(command, rest, terminal);
}

/** Runs the command line of this very invocation and leaves its exit code to Node. */
export async function main(): Promise<void> {
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    print: (line) => process.stdout.write(`${line}\n`),
    complain: (line) => process.stderr.write(`${line}\n`),
  });
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

function overview(): string {
  const width = Math.max(...COMMANDS.map((command) => command.name.length)) + 2;
  const lines = COMMANDS.map((command) => `  ${command.name.padEnd(width)}${command.summary}`);
  return [
    "Usage: sluice COMMAND",
    "",
    ...lines,
    "",
    "Each command explains itself: sluice COMMAND --help",
  ].join("\n");
}

const isHelp = (word: string) => word === "--help" || word === "-h";
