import { mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { RunFolder } from "./stack/run-folder.ts";
import { Secrets } from "./stack/secrets.ts";

/** A gateway that `sluice up` runs on this machine, as other commands find it. */
export const LocalRun = z.object({
  /** Of the command line that runs it. */
  pid: z.int().positive(),
  url: z.string(),
  secrets: Secrets,
});
export type LocalRun = z.infer<typeof LocalRun>;

/** Where a run is found, relative to the folder in which `sluice up` was started. */
export const RUN_FILE = ".sluice/run.json";

/**
 * Leaves a run where commands in `workingFolder` find it, in the place of one that was there, and
 * returns how to take it away again. Throws if the folder cannot be written to.
 *
 * What lies there is a link. The file itself lies in the run folder, which goes even when the command
 * line is killed outright, and the secrets with it.
 */
export function leaveRunFile(workingFolder: string, folder: RunFolder, run: LocalRun): () => void {
  const file = folder.writeSecret("run.json", JSON.stringify(run));
  const link = join(workingFolder, RUN_FILE);
  const freshLink = `${link}.${run.pid}`;
  mkdirSync(join(link, ".."), { recursive: true, mode: 0o700 });
  rmSync(freshLink, { force: true });
  symlinkSync(file, freshLink);
  renameSync(freshLink, link);
  return () => {
    // A later run in the same folder may have taken the place.
    if (targetOf(link) === file) rmSync(link, { force: true });
  };
}

/** Finds the run that was left in `workingFolder`; one whose command line is gone is none. */
export function findLocalRun(workingFolder: string): LocalRun | undefined {
  try {
    const run = LocalRun.parse(JSON.parse(readFileSync(join(workingFolder, RUN_FILE), "utf8")));
    return isRunning(run.pid) ? run : undefined;
  } catch {
    return undefined;
  }
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
