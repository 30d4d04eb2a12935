import * as z from "zod";
import { CommandFailure } from "../cli/command.ts";
import { countFlag } from "../cli/flags.ts";
import { runCrashRounds } from "./crash/crash-rounds.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  rounds: countFlag({ min: 1, max: 1_000, default: 20 }, "How often the gateway is killed"),
  seed: countFlag({ min: 0, max: 999_999_999, default: 1 }, "Fixes when, and what is asked"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run crash -- [flags]

Kills the gateway (workerd, SIGKILL) under load again and again, and compares after each restart what
clients saw the end of with what their tenant's ledger has counted. Ends with the code 1 if an answer
was lost, changed or counted twice, or if anything is left open.`;

async function crash({ rounds, seed }: Flags): Promise<string> {
  const report = await runCrashRounds({ rounds, seed, awaitsSweep: true });
  const { seen, cut, counted, open, disagreements } = report;
  const summary =
    `${rounds} rounds: ${seen} answers seen to their end, ${cut} cut off, ${counted} counted, ` +
    `${open} left open, ${disagreements.length} disagreements`;
  if (disagreements.length === 0 && open === 0) return summary;
  throw new CommandFailure([summary, ...disagreements.slice(0, 20)].join("\n"));
}

await runProgram({ flags: FLAGS, help: HELP, run: crash });
