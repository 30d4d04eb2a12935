import { mkdir, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import * as z from "zod";
import { buildBundle } from "../bundle.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES } from "../command.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { readPlatform, toWorkerdConfig, WORKER_VARIABLES } from "../workerd-config.ts";

const FLAGS = z.object({
  outdir: z.string().min(1, "Expected a folder").default("dist").register(FLAG_HELP, {
    valueName: "DIR",
    meaning: "Folder for the bundle (dist)",
  }),
  workerd: z
    .string()
    .regex(/^[\w.:[\]*-]+:\d{1,5}$/, "Expected HOST:PORT")
    .optional()
    .register(FLAG_HELP, {
      valueName: "HOST:PORT",
      meaning: "Write DIR/workerd.capnp as well, by which workerd listens there",
    }),
  objects: z.string().min(1, "Expected a folder").optional().register(FLAG_HELP, {
    valueName: "FOLDER",
    meaning: "With --workerd: where what is stored lies (DIR/objects)",
  }),
  secrets: z
    .string()
    .regex(
      /^[A-Z][A-Z0-9_]*(,[A-Z][A-Z0-9_]*)*$/,
      "Expected names such as GPU_POOL_TOKEN,OTHER_TOKEN",
    )
    .optional()
    .register(FLAG_HELP, {
      valueName: "NAMES",
      meaning: "With --workerd: secrets that pools name as their auth, with commas between",
    }),
  json: flagSwitch("Print the bundle's size as one JSON object"),
});

/** `sluice build`: bundles the Worker as a deployment would, and deploys nothing. */
export const buildCommand: Command = {
  name: "build",
  synopsis: "[flags]",
  summary: "Bundle the Worker without deploying it",
  help: `Writes the bundle that "wrangler deploy" would upload. With --workerd it also writes how "workerd serve"
runs it next to the GPUs: npx workerd serve DIR/workerd.capnp, with the secrets in the environment.

${toHelpLines(FLAGS)}`,
  run: runBuild,
};

async function runBuild(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags } = parseWords(words, FLAGS, 0);
  const outFolder = resolve(flags.outdir);
  const { file, bytes, gzipBytes } = await buildBundle(outFolder);
  if (flags.workerd !== undefined) {
    const objectsFolder = resolve(flags.objects ?? join(outFolder, "objects"));
    await mkdir(objectsFolder, { recursive: true });
    const variables = [...WORKER_VARIABLES, ...(flags.secrets?.split(",") ?? [])];
    const wish = { bundle: "edge.js", listen: flags.workerd, objectsFolder, variables };
    await writeFile(join(outFolder, "workerd.capnp"), toWorkerdConfig(await readPlatform(), wish));
  }
  terminal.print(
    flags.json
      ? JSON.stringify({ file, bytes, gzipBytes })
      : `${relative(process.cwd(), file)}   ${toKib(bytes)}, ${toKib(gzipBytes)} gzipped`,
  );
  return EXIT_CODES.ok;
}

const toKib = (bytes: number) => `${Math.round(bytes / 1024)} KiB`;
