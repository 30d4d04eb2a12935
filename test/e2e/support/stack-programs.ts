import { expect } from "vitest";
import type { LiveProgram } from "../../support/live-programs.ts";
import { descendantsOf, isAlive } from "../../support/live-programs.ts";
import type { RunningStack } from "./running-stack.ts";

/** Lists a ready stack's programs: more than the parts that the command line itself knows. */
export function listPrograms(stack: RunningStack): readonly LiveProgram[] {
  const programs = descendantsOf(stack.pid);
  for (const part of ["keeper.mjs", "wrangler", "workerd", "gpu-backend/start.mjs"]) {
    expect(programs.map(({ commandLine }) => commandLine)).toContainEqual(
      expect.stringContaining(part),
    );
  }
  return programs;
}

/** Expects that a stack which has ended left no program, no port and no file behind. */
export async function expectNothingLeft(
  stack: RunningStack,
  programs: readonly LiveProgram[],
): Promise<void> {
  expect(programs.filter(({ pid }) => isAlive(pid))).toEqual([]);
  expect(await stack.listTakenPorts()).toEqual([]);
  expect(stack.listLeftovers()).toEqual([]);
}
