import { configurationSchema } from "../../src/tenants/configuration-schema.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES } from "../command.ts";
import { parseWords, toHelpLines } from "../flags.ts";
import * as z from "zod";

const FLAGS = z.object({});

/** `sluice schema`: describes the configuration file to an editor. */
export const schemaCommand: Command = {
  name: "schema",
  synopsis: "> sluice.schema.json",
  summary: "Print the JSON Schema of a configuration file, for editors",
  help: `Prints the JSON Schema (draft 2020-12) of a configuration file. An editor that reads
"# yaml-language-server: $schema=sluice.schema.json" in the first line of a file completes its keys.
What is wrong only together (names that point nowhere, for one) "sluice check" tells.

${toHelpLines(FLAGS)}`,
  run: runSchema,
};

async function runSchema(words: readonly string[], terminal: Terminal): Promise<number> {
  parseWords(words, FLAGS, 0);
  terminal.print(JSON.stringify(configurationSchema(), null, 2));
  return EXIT_CODES.ok;
}
