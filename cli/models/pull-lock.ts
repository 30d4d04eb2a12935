import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandFailure } from "../command.ts";

const LOCK_FILE = ".sluice-pull";
/** Somebody may take a dead process's lock away at the same time as we do. */
const ATTEMPTS_MAX = 3;

/**
 * Keeps others on this machine from pulling into a folder at the same time; returns what lets them again. A lock
 * whose process is gone is none. Throws `CommandFailure` if another process has it.
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const path = join(folder, LOCK_FILE);
  for (let attempt = 1; ; attempt++) {
    try {
      await writeFile(path, String(process.pid), { flag: "wx" });
      return () => rm(path, { force: true });
    } catch (error) {
      if (!isThereAlready(error)) throw error;
      const owner = Number(await readFile(path, "utf8").catch(() => ""));
      if (isRunning(owner) || attempt === ATTEMPTS_MAX) {
        throw new CommandFailure(
          `Process ${owner} is pulling this model; if it is not, take ${path} away`,
        );
      }
      await rm(path, { force: true });
    }
  }
}

function isRunning(processId: number): boolean {
  if (!Number.isSafeInteger(processId) || processId < 1) return false;
  try {
    return process.kill(processId, 0);
  } catch (error) {
    // It is somebody else's, and it is there.
    return codeOf(error) === "EPERM";
  }
}

const isThereAlready = (error: unknown) => codeOf(error) === "EEXIST";

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
