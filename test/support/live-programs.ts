import { readFileSync } from "node:fs";
import { eventually } from "./eventually.ts";

/** Says whether a program runs; one that has ended and was not waited for yet does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return stateOf(pid) !== "Z";
}

/** Waits until a program has ended. */
export function whenDead(pid: number): Promise<void> {
  return eventually(`program ${pid} ends`, () => !isAlive(pid));
}

/** The state of a program as Linux tells it; undefined where there is no /proc. */
function stateOf(pid: number): string | undefined {
  try {
    // The name stands in parentheses and may hold any character, so what follows the last one counts.
    return /.*\) (\S)/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];
  } catch {
    return undefined;
  }
}
