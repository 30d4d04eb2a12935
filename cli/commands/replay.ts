import * as z from "zod";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { DECIDER_NAMES, deciderOf } from "../replay/deciders.ts";
import { readDecisions } from "../replay/read-decisions.ts";
import type { ReplayReport } from "../replay/replay-log.ts";
import { replayLog } from "../replay/replay-log.ts";
import type { ShadowReport } from "../replay/shadow-log.ts";
import { shadowLog } from "../replay/shadow-log.ts";
import { instantText, toColumns } from "../verbs.ts";

const FLAGS = z.object({
  shadow: z
    .string()
    .refine((name) => DECIDER_NAMES.includes(name), `Expected one of ${DECIDER_NAMES.join(", ")}`)
    .optional()
    .register(FLAG_HELP, {
      valueName: "NAME",
      meaning: "Let another one decide beside the log, and tell where it differs: see below",
    }),
  json: flagSwitch("Print the report as one JSON object"),
});

/** `sluice replay`: makes the decisions of a log again. */
export const replayCommand: Command = {
  name: "replay",
  synopsis: "LOG [flags]",
  summary: "Make the decisions of a pool's log again, or let another policy decide beside it",
  help: `Reads a pool's log (GET /admin/v1/pools/POOL/decisions; "-" is stdin), makes every call in it again from its
snapshots by the rules of this version, and names the first one that leads to something else. A log of the same
version diverges nowhere; of another version it shows what a change of the rules changed.

${toHelpLines(FLAGS)}

With --shadow nothing is compared but verdicts: each offer of the log is put to somebody else as well, in the
state that the pool was in. Of published policies: ${DECIDER_NAMES.filter((name) => !name.startsWith("no-")).join(", ")}.
Of our rules without one of them: ${DECIDER_NAMES.filter((name) => name.startsWith("no-")).join(", ")}.

Exit code 1: a decision came out otherwise, or the file is no log.`,
  run: runReplay,
};

function runReplay(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the file of a log");
  const decisions = readDecisions(file);
  const report = replayLog(decisions);
  const decider = flags.shadow === undefined ? undefined : deciderOf(flags.shadow, decisions.epoch);
  const shadow = decider && shadowLog(decisions, decider);
  const isSame = report.diverged === 0;
  if (flags.json) {
    terminal.print(JSON.stringify({ ...report, isReproduced: isSame, ...(shadow && { shadow }) }));
  } else {
    for (const line of replayText(report)) terminal.print(line);
    if (shadow) for (const line of shadowText(shadow, flags.shadow ?? "")) terminal.print(line);
  }
  return Promise.resolve(isSame ? EXIT_CODES.ok : EXIT_CODES.failure);
}

function replayText({
  calls,
  snapshots,
  effects,
  diverged,
  first,
  isWhole,
}: ReplayReport): string[] {
  const kinds = Object.entries(effects).map(([kind, count]) => `${kind} ${count}`);
  const lines = [
    `${calls} calls from ${snapshots} snapshot(s): ${kinds.join(", ") || "no effects"}`,
    ...(isWhole
      ? []
      : [
          "The log has no end: it was cut at its limit or on its way here, and its latest calls are missing",
        ]),
  ];
  if (first === undefined) return [...lines, "Every decision came out as it was logged"];
  const { callNumber, kind, requestId, atMs, difference } = first;
  const of = requestId === undefined ? "" : ` of ${requestId}`;
  return [
    ...lines,
    `${diverged} call(s) led to something else, first call ${callNumber}: ${kind}${of} at ${instantText(atMs)}`,
    ...(difference === undefined
      ? []
      : [
          `  ${difference.path === "" ? "the effects" : difference.path}: logged ${textOf(difference.a)}, now ${textOf(difference.b)}`,
        ]),
  ];
}

function shadowText(report: ShadowReport, name: string): string[] {
  const { offers, agreed, sameReplica, pairs, byTenant, differing } = report;
  const agreement = offers === 0 ? "-" : `${((100 * agreed) / offers).toFixed(1)} %`;
  return [
    "",
    `${name} beside it: the same kind of verdict on ${agreement} of ${offers} offers, the same replica for ${sameReplica}`,
    ...toColumns([
      ["pool", name, "offers", "good", "missed"],
      ...pairs.map((pair) => [
        pair.live,
        pair.shadow,
        String(pair.offers),
        String(pair.good),
        String(pair.missed),
      ]),
    ]),
    ...toColumns([
      ["tenant", "offers", "agreed"],
      ...Object.entries(byTenant).map(([tenant, own]) => [
        tenant,
        String(own.offers),
        String(own.agreed),
      ]),
    ]),
    ...differing.map(
      ({ atMs, requestId, tenantId, live, shadow }) =>
        `${instantText(atMs)}  ${requestId} of ${tenantId}: ${textOf(live)}, ${name}: ${textOf(shadow)}`,
    ),
    "Good and missed are how the pool's own dispatches ended, as far as the log goes; what would have become of the others nobody knows",
  ];
}

function textOf(value: unknown): string {
  return value === undefined ? "nothing" : JSON.stringify(value);
}
