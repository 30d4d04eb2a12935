import { readdirSync, readFileSync } from "node:fs";

/**
 * Finds the process that runs exactly this command. `undefined`: there is none, or the system has no
 * `/proc` to look in.
 */
export function findProcess(command: readonly string[]): number | undefined {
  const wanted = `${command.join("\0")}\0`;
  const pid = list("/proc").find(
    (name) => /^\d+$/.test(name) && read(`/proc/${name}/cmdline`) === wanted,
  );
  return pid === undefined ? undefined : Number(pid);
}

/** Finds the child of this process that runs a program of this name; `undefined` as above. */
export function findChild(program: string): number | undefined {
  const pid = list("/proc").find((name) => {
    // `pid (program) state parent …`
    const [, found, parent] = /^\d+ \((.*)\) \S (\d+) /.exec(read(`/proc/${name}/stat`)) ?? [];
    return found === program && Number(parent) === process.pid;
  });
  return pid === undefined ? undefined : Number(pid);
}

/**
 * Returns the CPU time that the threads of a process have used so far, in ms; its scheduler counts in
 * ns, unlike `ps`. A thread that has ended takes its time with it. NaN where the system does not say.
 */
export function cpuMsOf(pid: number): number {
  const usedNs = list(`/proc/${pid}/task`).map((thread) =>
    Number.parseInt(read(`/proc/${pid}/task/${thread}/schedstat`) || "0", 10),
  );
  return usedNs.length === 0 ? Number.NaN : usedNs.reduce((sum, ns) => sum + ns, 0) / 1e6;
}

function list(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Empty when there is nothing, be it that the thread has just ended. */
function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
