import * as z from "zod";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { formatProblem, keyHasher, readConfigurationFile } from "../read-configuration.ts";
import { flagSwitch, parseWords, toHelpLines } from "../flags.ts";

const FLAGS = z.object({
  local: flagSwitch("Allow what only a local gateway allows: plain keys"),
  json: flagSwitch("Print the problems as one JSON object"),
});

/** `sluice check`: says whether a configuration file is right, and changes nothing. */
export const checkCommand: Command = {
  name: "check",
  synopsis: "FILE [flags]",
  summary: "Check a configuration file",
  help: `Checks FILE as the gateway would, without asking one. Every problem is named at once, as
file:line path: what was expected and what was found. What depends on a part that cannot be read, such as
a sum of shares of which one is no share, is told once that part is right. What is allowed but probably not
meant, such as a key that has expired, is a warning only.

${toHelpLines(FLAGS)}`,
  run: runCheck,
};

async function runCheck(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the FILE to check");
  const read = await readConfigurationFile(file, {
    mode: flags.local ? "local" : "production",
    // The hashes are thrown away; what counts is that equal keys collide as they would for real.
    hashKey: keyHasher("check"),
  });
  const problems = read.kind === "ok" ? [] : read.problems;
  const { warnings } = read;
  const isRight = read.kind === "ok";
  if (flags.json) {
    terminal.print(JSON.stringify({ file, ok: isRight, problems, warnings }));
  } else {
    for (const problem of problems) terminal.complain(formatProblem(problem));
    for (const warning of warnings) terminal.complain(`Warning: ${formatProblem(warning)}`);
    if (isRight) terminal.print(`${file} is right`);
  }
  return isRight ? EXIT_CODES.ok : EXIT_CODES.failure;
}
