import * as z from "zod";
import { applyConfiguration, previewConfiguration } from "../admin-client.ts";
import { findGateway, gatewayUrlFlag } from "../admin-flags.ts";
import { appliedText, changedNames, lockedOut, removalNames } from "../changes-text.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import type { CheckedFile } from "../read-configuration.ts";
import { formatProblem, keyHasher, requireConfigurationFile } from "../read-configuration.ts";
import { requireSecret } from "../require-secret.ts";
import type { LocalRun } from "../run-file.ts";
import { expectedVersionFlag, reasonFlag } from "../change-flags.ts";
import { requireYes } from "../verbs.ts";

const FLAGS = z.object({
  url: gatewayUrlFlag,
  "expected-version": expectedVersionFlag,
  reason: reasonFlag,
  yes: flagSwitch("Do it although tenants or keys are removed, which locks out who uses them"),
  local: flagSwitch(`Ask the gateway that "sluice up" runs in this folder, and allow plain keys`),
  json: flagSwitch("Print the result as one JSON object"),
});

/** `sluice apply`: makes a configuration file the live configuration of a running gateway. */
export const applyCommand: Command = {
  name: "apply",
  synopsis: "FILE [flags]",
  summary: "Make a configuration file the live configuration",
  help: `Checks FILE and hands it to the gateway, which takes all of it or nothing. With --local it finds the
gateway that "sluice up" runs in this folder, and its secrets. Tenants and keys that FILE does not have are
removed, also those of "sluice tenants add": they are named, and nothing is done without --yes. Keys of "sluice
keys create" stay with their tenant. "sluice diff FILE" tells beforehand what it would change, "sluice rollback"
takes it back.

${toHelpLines(FLAGS)}

Environment, which wins over what --local finds:
  SLUICE_ADMIN_KEY    The gateway's admin key, or an API key with scope admin
  SLUICE_KEY_PEPPER   With --local: the gateway's pepper, to hash the file's plain keys`,
  run: runApply,
};

async function runApply(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the FILE to apply");
  const { access, run } = findGateway(flags, ["SLUICE_ADMIN_KEY", "SLUICE_KEY_PEPPER"]);
  const checked = await readForGateway(file, flags.local, run);
  for (const warning of checked.warnings) {
    terminal.complain(`Warning: ${formatProblem(warning)}`);
  }
  const { "expected-version": expectedVersion, reason } = flags;
  const preview = await previewConfiguration(access, checked.configuration);
  const removals = lockedOut(preview);
  const isStale = expectedVersion !== undefined && expectedVersion !== preview.version;
  // What will be refused for its version needs no confirmation.
  if (removals.length > 0 && !isStale) {
    const plan = `${file} does not have them: they would be removed from ${access.gatewayUrl}`;
    requireYes(flags.yes, [...removalNames(removals), plan]);
  }
  // What was looked at is what is replaced.
  const replaced = expectedVersion ?? preview.version;
  const applied = await applyConfiguration(access, checked.configuration, {
    ...(replaced !== undefined && { expectedVersion: replaced }),
    ...(reason !== undefined && { reason }),
  });
  const url = access.gatewayUrl;
  if (flags.json) {
    const removed = removals.map(({ kind, name }) => ({ kind, name }));
    terminal.print(JSON.stringify({ file, url, ...applied, removed }));
    return EXIT_CODES.ok;
  }
  if (applied.isChanged) for (const line of changedNames(preview)) terminal.print(line);
  terminal.print(`${file} is live at ${url} as ${appliedText(applied)}`);
  return EXIT_CODES.ok;
}

/** Reads a file for a gateway; throws what is wrong with it. */
export async function readForGateway(
  file: string,
  isLocal: boolean,
  run: LocalRun | undefined,
): Promise<CheckedFile> {
  return requireConfigurationFile(file, {
    mode: isLocal ? "local" : "production",
    // In production mode a plain key is refused before it would be hashed.
    hashKey: keyHasher(isLocal ? requireSecret("SLUICE_KEY_PEPPER", run) : ""),
  });
}
