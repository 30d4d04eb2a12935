import { execFileSync } from "node:child_process";
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

/**
 * The id of a program that has to be there. To put 0 in its place would send a signal to the tests' own
 * process group.
 */
export function pidOf(program: { readonly pid?: number | undefined } | undefined): number {
  if (program?.pid === undefined) throw new Error("Expected a program that runs, found none");
  return program.pid;
}

/** Waits until a program has ended. */
export function whenDead(pid: number): Promise<void> {
  return eventually(`program ${pid} ends`, () => !isAlive(pid));
}

/** Says whether a program stands still because of SIGSTOP. */
export function isStopped(pid: number): boolean {
  return stateOf(pid) === "T";
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

/** A program that another one started, directly or not. */
export interface LiveProgram {
  readonly pid: number;
  readonly commandLine: string;
}

/** Lists what a program has started and what those have started, as far as it still runs. */
export function descendantsOf(ancestorPid: number): readonly LiveProgram[] {
  const table = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], { encoding: "utf8" });
  const rows = table.split("\n").flatMap((line) => {
    const [, pid, parentPid, commandLine = ""] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return pid === undefined
      ? []
      : [{ pid: Number(pid), parentPid: Number(parentPid), commandLine }];
  });
  const childrenOf = (parentPid: number): typeof rows =>
    rows
      .filter((row) => row.parentPid === parentPid)
      .flatMap((row) => [row, ...childrenOf(row.pid)]);
  // ps itself is one of ours for as long as it runs.
  return childrenOf(ancestorPid).filter(({ pid }) => isAlive(pid));
}
