import { existsSync, readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { CommandFailure } from "../../cli/command.ts";
import type { Contender, RunLength, Scenario, SeedOutcome } from "./policy-run.ts";
import { outcomeOf } from "./policy-run.ts";

const Counts = z.object({
  offered: z.number(),
  refused: z.number(),
  judged: z.number(),
  good: z.number(),
  goodCostMs: z.number(),
  admittedCostMs: z.number(),
  inProfileCostMs: z.number(),
});
const Kept = z.record(
  z.string(),
  z.object({ tenants: z.array(Counts), goodCostRatio: z.number() }),
);

/** What runs came to, on file where one is given: a long comparison may be made in several sittings. */
export class KeptOutcomes {
  readonly #file: string | undefined;
  readonly #outcomes: Map<string, SeedOutcome>;
  readonly #stopAtMs: number;

  constructor(file: string | undefined, minutesMax: number) {
    this.#file = file;
    this.#stopAtMs = performance.now() + minutesMax * 60_000;
    const kept = file !== undefined && existsSync(file) ? readFileSync(file, "utf8") : "{}";
    this.#outcomes = new Map(Object.entries(Kept.parse(JSON.parse(kept))));
  }

  /** Runs a scenario with one seed, if that is not on file. */
  of(
    scenario: Scenario,
    contender: Contender,
    at: { readonly seed: number; readonly length: RunLength },
  ): SeedOutcome {
    const { warmUpMs, measuredMs } = at.length;
    const key = [scenario.name, contender.name, contender.knob, at.seed, warmUpMs, measuredMs].join(
      "|",
    );
    const known = this.#outcomes.get(key);
    if (known !== undefined) return known;
    if (this.#file !== undefined && performance.now() > this.#stopAtMs) {
      throw new CommandFailure(
        `Stopped with ${this.#outcomes.size} runs on file: go on with the same flags`,
      );
    }
    const outcome = outcomeOf(scenario, contender, at);
    this.#outcomes.set(key, outcome);
    if (this.#file !== undefined) {
      writeFileSync(this.#file, JSON.stringify(Object.fromEntries(this.#outcomes)));
    }
    return outcome;
  }
}
