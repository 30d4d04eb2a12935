import { relative, resolve } from "node:path";
import * as z from "zod";
import { buildBundle } from "../bundle.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES } from "../command.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines } from "../flags.ts";

const FLAGS = z.object({
  outdir: z.string().min(1, "Expected a folder").default("dist").register(FLAG_HELP, {
    valueName: "DIR",
    meaning: "Folder for the bundle (dist)",
  }),
  json: flagSwitch("Print the bundle's size as one JSON object"),
});

/** `sluice build`: bundles the Worker as a deployment would, and deploys nothing. */
export const buildCommand: Command = {
  name: "build",
  synopsis: "[flags]",
  summary: "Bundle the Worker without deploying it",
  help: `Writes the bundle that "wrangler deploy" would upload and "workerd serve" can run.

${toHelpLines(FLAGS)}`,
  run: runBuild,
};

async function runBuild(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags } = parseWords(words, FLAGS, 0);
  const { file, bytes, gzipBytes } = await buildBundle(resolve(flags.outdir));
  terminal.print(
    flags.json
      ? JSON.stringify({ file, bytes, gzipBytes })
      : `${relative(process.cwd(), file)}   ${toKib(bytes)}, ${toKib(gzipBytes)} gzipped`,
  );
  return EXIT_CODES.ok;
}

const toKib = (bytes: number) => `${Math.round(bytes / 1024)} KiB`;
