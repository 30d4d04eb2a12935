import type { LoadedModel } from "../../gpu-backend/engine/model/load-model.ts";
import type { EngineSide } from "./engine-side.ts";
import { computePrompts, type Extent, limitsOf, workloadsOf } from "./measure-sides.ts";
import {
  openSluice,
  type SluiceWay,
  STEP_PARTS,
  type StepPartName,
  type StepWatch,
} from "./sluice-side.ts";

const RUNS = 8;

/**
 * Measures what the parts of a step take, in ms a step: those of the fastest of a few runs of each
 * workload, since what others on the machine take is no part of it.
 */
export async function measureParts(
  model: LoadedModel,
  way: SluiceWay,
  extent: Extent,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const clock = new PartClock();
  const side = await openSluice(model, way, limitsOf(extent), clock);
  await computePrompts(side, extent);
  const parts = new Map<string, readonly number[]>();
  for (const workload of workloadsOf(extent)) {
    const runs: number[][] = [];
    for (let index = 0; index < RUNS; index++) {
      clock.restart();
      let steps = 0;
      await workload.run({ ...side, step: (...args) => countStep(side, args, () => (steps += 1)) });
      clock.enter("rest");
      runs.push(STEP_PARTS.map((part) => clock.msOf(part) / steps));
    }
    const fastest = runs.toSorted((x, y) => sumOf(x) - sumOf(y))[0] ?? [];
    parts.set(workload.name, fastest);
  }
  await side.close();
  return parts;
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

function countStep(side: EngineSide, args: Parameters<EngineSide["step"]>, count: () => void) {
  count();
  return side.step(...args);
}

/** Adds up what passes between one part and the next. */
class PartClock implements StepWatch {
  readonly #ms = new Map<StepPartName, number>();
  #part: StepPartName = "rest";
  #sinceMs = performance.now();

  restart(): void {
    this.#ms.clear();
    this.#part = "rest";
    this.#sinceMs = performance.now();
  }

  enter(part: StepPartName): void {
    const nowMs = performance.now();
    this.#ms.set(this.#part, this.msOf(this.#part) + nowMs - this.#sinceMs);
    this.#part = part;
    this.#sinceMs = nowMs;
  }

  msOf(part: StepPartName): number {
    return this.#ms.get(part) ?? 0;
  }
}
