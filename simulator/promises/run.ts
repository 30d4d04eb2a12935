import type { Mechanisms } from "../../src/pool/mechanisms.ts";
import type { ExperimentOptions } from "../experiment.ts";
import { runExperiment } from "../experiment.ts";
import type { RequestRecord } from "../request-record.ts";

/** On how much a promise is tested, and what of the core is switched off to see it break. */
export interface PromiseOptions {
  /** This many seeds, from 1 on. */
  readonly seeds: number;
  readonly measuredMs: number;
  readonly mechanisms?: Partial<Mechanisms>;
}

/** The requests of one seed that arrived while they counted, in the order in which they ended. */
export interface SeedRun {
  readonly records: readonly RequestRecord[];
  /** Of one tenant, by its place in the workload. */
  of(tenantIndex: number): readonly RequestRecord[];
}

/** As `sluice up` starts its engines: prefill is cut to the pace that was promised to who decodes. */
const OUR_ENGINE = { keepsTbt: true } as const;

/** Runs an experiment for each seed. */
export function runSeeds(
  { seeds, measuredMs, mechanisms }: PromiseOptions,
  experiment: Omit<ExperimentOptions, "seed" | "measuredMs" | "mechanisms">,
): SeedRun[] {
  return Array.from({ length: seeds }, (_, index) => {
    const seed = index + 1;
    const records: RequestRecord[] = [];
    const { warmUpMs, onRecord } = experiment;
    runExperiment({
      engine: OUR_ENGINE,
      ...experiment,
      seed,
      measuredMs,
      ...(mechanisms !== undefined && { mechanisms }),
      onRecord: (record) => {
        onRecord?.(record);
        const { arrivedAtMs } = record;
        if (arrivedAtMs >= warmUpMs && arrivedAtMs < warmUpMs + measuredMs) records.push(record);
      },
    });
    return {
      records,
      of: (tenantIndex) => records.filter(({ spec }) => spec.tenantIndex === tenantIndex),
    };
  });
}
