import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import * as z from "zod";
import { CommandFailure } from "../cli/command.ts";
import { countFlag } from "../cli/flags.ts";
import { createRunFolder } from "../cli/stack/run-folder.ts";
import { PACKAGE_ROOT } from "../cli/wrangler.ts";
import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import { seededRandom } from "../src/base/random.ts";
import { describeMachine } from "./support/machine.ts";
import { cpuMsOf, findChild } from "./support/process-cpu.ts";
import { runProgram } from "./support/run-program.ts";
import { bootstrapInterval, quantileOf } from "../simulator/statistics.ts";
import { shuffle } from "./support/shuffle.ts";

const FLAGS = z.object({
  rounds: countFlag({ min: 3, max: 10_000, default: 100 }, "Times that each directory is measured"),
  lookups: countFlag(
    { min: 1, max: 10_000, default: 480 },
    "Calls of one measurement, 240 or a multiple",
  ),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:lookup -- [flags]

Measures what the look-up of a key costs in a directory with 10,000 tenants and 100,000 keys, beside one with
10 tenants and 100 keys, in one process: the two take turns in random order, so that a disturbance hits
both. Counts the processor time of the one process that does it. Prints Markdown.`;

const WARM_UP_ROUNDS = 5;
const SIZES = [
  { name: "small", tenants: 10, keys: 10 },
  { name: "large", tenants: 10_000, keys: 10 },
] as const;

type Size = (typeof SIZES)[number];

const PATHS = ["/lookup", "/authenticate"] as const;
type Path = (typeof PATHS)[number];
const MEANINGS: Record<Path, string> = {
  "/lookup": "a call of the directory, each for another key",
  "/authenticate": "a request",
};

const Filled = z.object({ version: z.int(), ms: z.number() });
const Measured = z.object({ known: z.int() });

/** Microseconds a look-up in each of the directories, measured one after the other. */
interface Sample {
  readonly small: number;
  readonly large: number;
}

async function runBenchmark(flags: Flags): Promise<string> {
  const machine = describeMachine(["workerd"]);
  const folder = createRunFolder();
  const file = join(folder.path, "lookup-worker.js");
  await build({
    entryPoints: [join(PACKAGE_ROOT, "test/workers/support/lookup-worker.ts")],
    outfile: file,
    bundle: true,
    format: "esm",
    target: "es2023",
    external: ["cloudflare:workers", "node:*"],
  });
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    modules: true,
    modulesRoot: folder.path,
    scriptPath: file,
    compatibilityDate: "2026-04-26",
    compatibilityFlags: ["nodejs_compat"],
    bindings: {
      SLUICE_MODE: "local",
      SLUICE_KEY_PEPPER: "sluice-local-key-pepper-of-the-bench",
      SLUICE_CACHE_MASTER: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc",
      SLUICE_ADMIN_KEY: "sluice-local-admin-key-of-the-bench",
      SLUICE_REPLICA_SECRET: "sluice-local-replica-secret-of-the-bench",
    },
    durableObjects: { DIRECTORY: { className: "DirectoryObject", useSQLite: true } },
    durableObjectsPersist: join(folder.path, "objects"),
  });
  try {
    const lines = await measure(miniflare, flags);
    return [
      "# What a look-up costs",
      "",
      `\`npm run bench:lookup -- --rounds ${flags.rounds} --lookups ${flags.lookups}\``,
      "",
      machine,
      ...lines,
    ].join("\n");
  } finally {
    await miniflare.dispose();
    folder.remove();
  }
}

async function measure(miniflare: Miniflare, flags: Flags): Promise<string[]> {
  const { rounds, lookups } = flags;
  const ask = async (path: string, size: Size, more = ""): Promise<unknown> => {
    const query = `name=${size.name}&tenants=${size.tenants}&keys=${size.keys}${more}`;
    const response = await miniflare.dispatchFetch(`http://bench.test${path}?${query}`);
    assert(response.ok, `the bench Worker answered ${response.status}`);
    return response.json();
  };
  const [small, large] = SIZES;
  await ask("/fill", small);
  const filled = Filled.parse(await ask("/fill", large));
  const pid = findChild("workerd");
  if (pid === undefined)
    throw new CommandFailure("Expected a system with /proc, which tells CPU time");
  const random = seededRandom(1);
  const samples: Record<Path, Sample[]> = { "/lookup": [], "/authenticate": [] };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    const more = `&count=${lookups}&first=${(round + WARM_UP_ROUNDS) * lookups}`;
    for (const path of PATHS) {
      const us = { small: 0, large: 0 };
      for (const size of shuffle(SIZES, random)) {
        const atStartMs = cpuMsOf(pid);
        // oxlint-disable-next-line no-await-in-loop -- one at a time
        const { known } = Measured.parse(await ask(path, size, more));
        assert(known === lookups, "every key that is asked for is there");
        us[size.name] = ((cpuMsOf(pid) - atStartMs) * 1000) / lookups;
      }
      if (round >= 0) samples[path].push(us);
    }
  }
  return [
    `- ${rounds} rounds of ${lookups} calls in each directory, one at a time; ${filled.ms} ms to apply the large one`,
    "- a request: its authentication at an edge; a key is used for a minute, 20 times in the 5 s for which it is remembered",
    "",
    "| median µs of CPU time | 10 tenants, 100 keys | 10,000 tenants, 100,000 keys | large over small [95 % interval] |",
    "|---|---:|---:|---:|",
    ...PATHS.map((path) => toRow(path, samples[path], random)),
  ];
}

function toRow(path: Path, samples: readonly Sample[], random: Random): string {
  const ratioOf = (some: readonly Sample[]): number =>
    quantileOf(
      some.map((sample) => sample.large / sample.small),
      0.5,
    );
  const { low, high } = bootstrapInterval(samples, ratioOf, random);
  const [smallUs, largeUs] = (["small", "large"] as const).map((name) =>
    quantileOf(
      samples.map((sample) => sample[name]),
      0.5,
    ).toFixed(1),
  );
  const ratio = `**${ratioOf(samples).toFixed(3)}×** [${low.toFixed(3)}, ${high.toFixed(3)}]`;
  return `| ${MEANINGS[path]} | ${smallUs} | ${largeUs} | ${ratio} |`;
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
