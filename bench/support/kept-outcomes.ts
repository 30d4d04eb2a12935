import { appendFileSync, existsSync, readFileSync } from "node:fs";
import * as z from "zod";
import { CommandFailure } from "../../cli/command.ts";
import type { Contender, RunLength, Scenario, SeedOutcome } from "./policy-run.ts";
import { outcomeOf } from "./policy-run.ts";
import { digestOfProgram } from "./source-digest.ts";

const Counts = z.object({
  offered: z.number(),
  refused: z.number(),
  judged: z.number(),
  good: z.number(),
  goodCostMs: z.number(),
  admittedCostMs: z.number(),
  inProfileCostMs: z.number(),
});
const Kept = z.object({
  key: z.string(),
  outcome: z.object({ tenants: z.array(Counts), goodCostRatio: z.number() }),
});

const RUN = "bench/support/policy-run.ts";
const SCENARIOS = "bench/support/policy-scenarios.ts";
/** Through it alone a run depends on the core. */
const CORE = "simulator/pool-dispatcher.ts";

/** What runs came to, on file where one is given: a long comparison may be made in several sittings. */
export class KeptOutcomes {
  readonly #file: string | undefined;
  readonly #outcomes = new Map<string, SeedOutcome>();
  readonly #stopAtMs: number;
  /** A run is made again when what it depends on has changed. */
  readonly #scenariosDigest = digestOfProgram(SCENARIOS, [CORE]);
  readonly #policyDigest = digestOfProgram(RUN, [CORE]);
  readonly #coreDigest = digestOfProgram(RUN);
  #made = 0;

  constructor(file: string | undefined, minutesMax: number) {
    this.#file = file;
    this.#stopAtMs = performance.now() + minutesMax * 60_000;
    const text = file !== undefined && existsSync(file) ? readFileSync(file, "utf8") : "";
    for (const line of text.split("\n")) {
      const kept = readLine(line);
      if (kept !== undefined) this.#outcomes.set(kept.key, kept.outcome);
    }
  }

  /** Runs a scenario with one seed, if that is not on file. */
  of(
    scenario: Scenario,
    contender: Contender,
    at: { readonly seed: number; readonly length: RunLength },
  ): SeedOutcome {
    const { warmUpMs, measuredMs } = at.length;
    const key = [
      scenario.id,
      contender.name,
      contender.knob,
      at.seed,
      warmUpMs,
      measuredMs,
      this.#scenariosDigest,
      contender.policy === "sluice" ? this.#coreDigest : this.#policyDigest,
    ].join("|");
    const known = this.#outcomes.get(key);
    if (known !== undefined) return known;
    if (this.#file !== undefined && performance.now() > this.#stopAtMs) {
      throw new CommandFailure(`Stopped behind ${this.#made} runs: go on with the same flags`);
    }
    const outcome = outcomeOf(scenario, contender, at);
    this.#made += 1;
    this.#outcomes.set(key, outcome);
    if (this.#file !== undefined) {
      appendFileSync(this.#file, `${JSON.stringify({ key, outcome })}\n`);
    }
    return outcome;
  }
}

/** A line that was cut when a program ended is none. */
function readLine(line: string): z.output<typeof Kept> | undefined {
  try {
    return Kept.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}
