import * as z from "zod";
import { applyConfiguration } from "../admin-client.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { keyHasher, requireConfigurationFile } from "../read-configuration.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines, wholeNumber } from "../flags.ts";

const VERSION_MAX = 999_999_999;

const FLAGS = z.object({
  url: z
    .url({ protocol: /^https?$/, error: "Expected a URL such as https://gateway.example" })
    .transform((url) => url.replace(/\/+$/, ""))
    .default("http://127.0.0.1:8787")
    .register(FLAG_HELP, {
      placeholder: "URL",
      meaning: "The gateway (http://127.0.0.1:8787)",
    }),
  "expected-version": wholeNumber(0, VERSION_MAX).optional().register(FLAG_HELP, {
    placeholder: "N",
    meaning: "Refuse unless version N is live now (0: none is)",
  }),
  local: flagSwitch("Allow what only a local gateway allows: plain keys"),
  json: flagSwitch("Print the result as one JSON object"),
});

/** `sluice apply`: makes a configuration file the live configuration of a running gateway. */
export const applyCommand: Command = {
  name: "apply",
  synopsis: "FILE [flags]",
  summary: "Make a configuration file the live configuration",
  help: `Checks FILE and hands it to the gateway, which takes all of it or nothing.

${toHelpLines(FLAGS)}

Environment:
  SLUICE_ADMIN_KEY    The gateway's admin key
  SLUICE_KEY_PEPPER   With --local: the gateway's pepper, to hash the file's plain keys`,
  run: runApply,
};

async function runApply(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the FILE to apply");
  const adminKey = requireVariable("SLUICE_ADMIN_KEY");
  const { configuration } = await requireConfigurationFile(file, {
    mode: flags.local ? "local" : "production",
    // In production mode a plain key is refused before it would be hashed.
    hashKey: keyHasher(flags.local ? requireVariable("SLUICE_KEY_PEPPER") : ""),
  });
  const access = { gatewayUrl: flags.url, adminKey };
  const version = await applyConfiguration(access, configuration, flags["expected-version"]);
  terminal.print(
    flags.json
      ? JSON.stringify({ file, url: flags.url, version })
      : `${file} is live at ${flags.url} as version ${version}`,
  );
  return EXIT_CODES.ok;
}

function requireVariable(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new WrongUse(`Expected ${name} in the environment`);
  }
  return value;
}
