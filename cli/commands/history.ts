import * as z from "zod";
import { Applied, Changes, VersionList } from "../../src/tenants/admin-answers.ts";
import { callAdmin, previewConfiguration } from "../admin-client.ts";
import { ADMIN_ENVIRONMENT, ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import { expectedVersionFlag, reasonFlag, versionNumber } from "../change-flags.ts";
import { appliedText, changesText, countsText } from "../changes-text.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { countFlag, flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { instantText, requireYes, toColumns } from "../verbs.ts";
import { readForGateway } from "./apply.ts";

const HISTORY_MAX = 100;
const HISTORY_USUAL = 20;

const HISTORY_FLAGS = ADMIN_FLAGS.extend({
  limit: countFlag(
    { min: 1, max: HISTORY_MAX, default: HISTORY_USUAL },
    "So many versions at most",
  ),
});
const DIFF_FLAGS = ADMIN_FLAGS;
const ROLLBACK_FLAGS = ADMIN_FLAGS.extend({
  "expected-version": expectedVersionFlag,
  reason: reasonFlag,
  yes: flagSwitch("Do it; without this flag it is only told what would change"),
});

/** `sluice history`: who made which version live, when and what for. */
export const historyCommand: Command = {
  name: "history",
  synopsis: "[flags]",
  summary: "List the versions of the configuration",
  help: `Lists the versions that one can go back to, newest first. Who made one is told by the key, as TENANT/NAME;
"bootstrap" is whoever had SLUICE_ADMIN_KEY, the one secret that needs no tenant.

${toHelpLines(HISTORY_FLAGS)}

${ADMIN_ENVIRONMENT}`,
  async run(words, terminal) {
    const { values: flags } = parseWords(words, HISTORY_FLAGS, 0);
    const { access } = findGateway(flags);
    const answer = await callAdmin(access, "/configuration/history", VersionList, {
      query: { limit: flags.limit },
    });
    const rows = answer.versions.map(({ version, atMs, actor, action, reason, changes }) => [
      String(version),
      instantText(atMs),
      actor,
      action,
      countsText(changes),
      reason,
    ]);
    const lines = toColumns([["version", "when", "who", "what", "changes", "why"], ...rows]);
    print(terminal, flags.json, { lines, json: answer });
    return EXIT_CODES.ok;
  },
};

/** `sluice diff`: what a file would change, or what differs between two versions. */
export const diffCommand: Command = {
  name: "diff",
  synopsis: "FILE | N [M] [flags]",
  summary: "Tell what a file would change, or what differs between versions",
  help: `With a FILE: tells what "sluice apply FILE" would change now. With a version N: what has changed since, or
until version M.

${toHelpLines(DIFF_FLAGS)}

${ADMIN_ENVIRONMENT}
  SLUICE_KEY_PEPPER   With --local and a FILE: the gateway's pepper, to hash the file's plain keys`,
  async run(words, terminal) {
    const { values: flags, positionals } = parseWords(words, DIFF_FLAGS, 2);
    const [first, second] = positionals;
    if (first === undefined) throw new WrongUse("Expected the FILE or the version to compare");
    const isVersion = versionNumber.safeParse(first).success;
    if (!isVersion && second !== undefined) throw new WrongUse(`Unexpected word "${second}"`);
    const changes = isVersion ? await compare(flags, first, second) : await preview(flags, first);
    print(terminal, flags.json, { lines: changesText(changes), json: changes });
    return (changes.problems ?? []).length === 0 ? EXIT_CODES.ok : EXIT_CODES.failure;
  },
};

/** `sluice rollback`: makes a former version live again. */
export const rollbackCommand: Command = {
  name: "rollback",
  synopsis: "N [flags]",
  summary: "Make a former version of the configuration live again",
  help: `Makes version N live again, under a new number. Keys that were issued since stay, and those that were revoked
stay revoked. Who is removed by it loses the issued keys; whom it brings back gets those that went along.

${toHelpLines(ROLLBACK_FLAGS)}

${ADMIN_ENVIRONMENT}`,
  async run(words, terminal) {
    const { values: flags, positionals } = parseWords(words, ROLLBACK_FLAGS, 1);
    const version = versionNumber.safeParse(positionals[0] ?? "");
    if (!version.success) throw new WrongUse("Expected the number of the version to go back to");
    const { access } = findGateway(flags);
    if (!flags.yes) {
      const { configurationVersion: live } = await callAdmin(
        access,
        "/status",
        z.object({ configurationVersion: z.int() }),
      );
      const query = { from: live, to: version.data };
      const changes = await callAdmin(access, "/configuration/diff", Changes, { query });
      requireYes(false, changesText(changes));
    }
    const { "expected-version": expectedVersion, reason } = flags;
    const applied = await callAdmin(access, "/configuration/rollback", Applied, {
      method: "POST",
      body: {
        version: version.data,
        ...(expectedVersion !== undefined && { expectedVersion }),
        ...(reason !== undefined && { reason }),
      },
    });
    const lines = [`Version ${version.data} is live again as ${appliedText(applied)}`];
    print(terminal, flags.json, { lines, json: applied });
    return EXIT_CODES.ok;
  },
};

async function compare(
  flags: z.output<typeof DIFF_FLAGS>,
  from: string,
  to: string | undefined,
): Promise<Changes> {
  if (to !== undefined && !versionNumber.safeParse(to).success) {
    throw new WrongUse(`Expected the number of a version, found "${to}"`);
  }
  const { access } = findGateway(flags);
  return callAdmin(access, "/configuration/diff", Changes, { query: { from, to } });
}

async function preview(flags: z.output<typeof DIFF_FLAGS>, file: string): Promise<Changes> {
  const { access, run } = findGateway(flags, ["SLUICE_ADMIN_KEY", "SLUICE_KEY_PEPPER"]);
  const { configuration } = await readForGateway(file, flags.local, run);
  return previewConfiguration(access, configuration);
}

function print(
  terminal: Terminal,
  isJson: boolean,
  { lines, json }: { readonly lines: readonly string[]; readonly json: object },
): void {
  if (isJson) terminal.print(JSON.stringify(json));
  else for (const line of lines) terminal.print(line);
}
