import type { SloReport } from "../admin-client.ts";
import { fetchSlo } from "../admin-client.ts";
import { ADMIN_ENVIRONMENT, ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES } from "../command.ts";
import { flagSwitch, parseWords, toHelpLines } from "../flags.ts";

const FLAGS = ADMIN_FLAGS.extend({
  json: flagSwitch("Print a line of JSON for each tenant"),
});

/** `sluice slo`: tells how the promises to tenants are kept. */
export const sloCommand: Command = {
  name: "slo",
  synopsis: "[TENANT] [flags]",
  summary: "Tell how the promises to tenants are kept",
  help: `Asks the gateway how each tenant's promises, or those to TENANT, were kept over 5 minutes, an hour and 30
days: the share that met every target with its exact 95 % interval, how fast the error budget is spent and what
is left of it, what was refused and why, and what misses were made of.

${toHelpLines(FLAGS)}

${ADMIN_ENVIRONMENT}`,
  run: runSlo,
};

async function runSlo(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const { access } = findGateway(flags);
  const reports = await fetchSlo(access, positionals[0]);
  if (flags.json) {
    for (const report of reports) terminal.print(JSON.stringify(report));
  } else {
    terminal.print(toTable(reports));
  }
  return EXIT_CODES.ok;
}

const HEAD = [
  "TENANT",
  "CLASS",
  "WINDOW",
  "ATTAINED",
  "95 % INTERVAL",
  "BURN",
  "BUDGET LEFT",
  "GOOD/S",
  "ACCEPTED",
  "REFUSED FOR",
  "MISSED FOR",
];

function toTable(reports: readonly SloReport[]): string {
  const rows = reports.flatMap(({ tenant, classes }) =>
    classes.flatMap(({ class: className, windows }) =>
      Object.entries(windows).map(([name, window]) => [
        tenant,
        className,
        name,
        toPercent(window.attainment),
        window.attainment_interval?.map(toPercent).join(" to ") ?? "-",
        window.burn_rate.toFixed(1),
        toPercent(window.error_budget_left),
        window.goodput_per_second.toFixed(2),
        toPercent(window.acceptance),
        toCounts(window.refusals),
        toCounts(window.misses),
      ]),
    ),
  );
  const widths = HEAD.map((head, index) =>
    Math.max(head.length, ...rows.map((row) => row[index]?.length ?? 0)),
  );
  return [HEAD, ...rows]
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function toPercent(ratio: number | null): string {
  return ratio === null ? "-" : `${(ratio * 100).toFixed(2)}%`;
}

function toCounts(counts: Readonly<Record<string, number>>): string {
  const told = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
  return told.length === 0 ? "-" : told.join(", ");
}
