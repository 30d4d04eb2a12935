import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { countFlag, flagSwitch } from "../cli/flags.ts";
import type { LiveLoad } from "./live/live-run.ts";
import { runLive, runSimulated } from "./live/live-run.ts";
import { liveTable } from "./live/live-table.ts";
import { CONFIGURATION } from "./live/live-tenants.ts";
import { describeMachine } from "./support/machine.ts";
import { withMeasuredStack } from "./support/measured-stack.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  seconds: countFlag({ min: 5, max: 3_600, default: 45 }, "Seconds that count of each run"),
  "warm-up": countFlag({ min: 1, max: 600, default: 15 }, "Seconds before them that do not"),
  repeats: countFlag(
    { min: 1, max: 20, default: 3 },
    "Runs at twice the load, of the same requests",
  ),
  write: flagSwitch("Write the table to bench/results/live.md"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:live -- [flags]

Real processes: the gateway under workerd, two engines with the real scheduler and KV cache whose executor sleeps as
long as a modelled GPU would compute, and an open-loop load over HTTP. At 0.7 of the pool, at twice it, and with one
tenant at 20 times its part; then the bundled model itself under little load. The simulator is given the same requests.`;

const PACED_SOURCES = new Map([
  ["/onnx-executor.ts", fileURLToPath(new URL("./live/paced-executor.ts", import.meta.url))],
]);
const NOISY = { chat: 20 };
const REAL_LOAD_RATIO = 0.1;

async function runBenchmark(flags: Flags): Promise<string> {
  const machine = describeMachine();
  const times = { warmUpMs: flags["warm-up"] * 1000, measuredMs: flags.seconds * 1000, seed: 1 };
  const light: LiveLoad = { ...times, loadRatio: 0.7, factors: {} };
  const overload: LiveLoad = { ...times, loadRatio: 2, factors: {} };
  const noisy: LiveLoad = { ...light, factors: NOISY };
  const paced = await withMeasuredStack(
    async (stack) => {
      tell("0.7×");
      const alone = await runLive(stack, light);
      const repeats = [];
      for (let repeat = 1; repeat <= flags.repeats; repeat += 1) {
        tell(`2×, repeat ${repeat}`);
        // oxlint-disable-next-line no-await-in-loop -- one after another: they share the pool
        repeats.push(await runLive(stack, overload));
      }
      tell("chat at 20 times its part");
      return { alone, repeats, beside: await runLive(stack, noisy) };
    },
    2,
    { configuration: CONFIGURATION, replacedSources: PACED_SOURCES },
  );
  tell("the bundled model");
  const real = await withMeasuredStack(
    (stack) => runLive(stack, { ...times, loadRatio: REAL_LOAD_RATIO, factors: {} }),
    2,
    { configuration: CONFIGURATION },
  );
  const simulated = {
    alone: runSimulated(light),
    twice: runSimulated(overload),
    beside: runSimulated(noisy),
  };
  const text = liveTable({ machine, flags, paced, simulated, real });
  if (flags.write) writeFileSync(join(import.meta.dirname, "results", "live.md"), text);
  return text;
}

function tell(what: string): void {
  console.error(`${new Date().toISOString()} ${what}`);
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
