import * as z from "zod";
import { applyConfiguration } from "../admin-client.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import {
  findWarnings,
  formatProblem,
  keyHasher,
  requireConfigurationFile,
} from "../read-configuration.ts";
import { requireSecret } from "../require-secret.ts";
import type { LocalRun } from "../run-file.ts";
import { findLocalRun } from "../run-file.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines, wholeNumber } from "../flags.ts";

const VERSION_MAX = 999_999_999;
const DEFAULT_URL = "http://127.0.0.1:8787";

const FLAGS = z.object({
  url: z
    .url({ protocol: /^https?$/, error: "Expected a URL such as https://gateway.example" })
    .transform((url) => url.replace(/\/+$/, ""))
    .optional()
    .register(FLAG_HELP, {
      valueName: "URL",
      meaning: `The gateway (with --local the one that runs, otherwise ${DEFAULT_URL})`,
    }),
  "expected-version": wholeNumber(0, VERSION_MAX).optional().register(FLAG_HELP, {
    valueName: "N",
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
  help: `Checks FILE and hands it to the gateway, which takes all of it or nothing. With --local it finds the
gateway that "sluice up" runs in this folder, and its secrets.

${toHelpLines(FLAGS)}

Environment, which wins over what --local finds:
  SLUICE_ADMIN_KEY    The gateway's admin key
  SLUICE_KEY_PEPPER   With --local: the gateway's pepper, to hash the file's plain keys`,
  run: runApply,
};

async function runApply(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the FILE to apply");
  const run = flags.local ? findRunAt(flags.url) : undefined;
  const url = flags.url ?? run?.url ?? DEFAULT_URL;
  const adminKey = requireSecret("SLUICE_ADMIN_KEY", run);
  const checked = await requireConfigurationFile(file, {
    mode: flags.local ? "local" : "production",
    // In production mode a plain key is refused before it would be hashed.
    hashKey: keyHasher(flags.local ? requireSecret("SLUICE_KEY_PEPPER", run) : ""),
  });
  const { configuration } = checked;
  for (const warning of findWarnings(checked, Date.now())) {
    terminal.complain(`Warning: ${formatProblem(warning)}`);
  }
  const access = { gatewayUrl: url, adminKey };
  const version = await applyConfiguration(access, configuration, flags["expected-version"]);
  terminal.print(
    flags.json
      ? JSON.stringify({ file, url, version })
      : `${file} is live at ${url} as version ${version}`,
  );
  return EXIT_CODES.ok;
}

/** The secrets of a run are for its own gateway, not for whatever else listens at `url`. */
function findRunAt(url: string | undefined): LocalRun | undefined {
  const run = findLocalRun(process.cwd());
  if (run === undefined || url === undefined || url === run.url) return run;
  const isGiven = ["SLUICE_ADMIN_KEY", "SLUICE_KEY_PEPPER"].every((name) => process.env[name]);
  if (isGiven) return undefined;
  throw new WrongUse(
    `The gateway that runs in this folder is at ${run.url}, not at ${url}: leave --url out, or set ` +
      "SLUICE_ADMIN_KEY and SLUICE_KEY_PEPPER of the other one in the environment",
  );
}
