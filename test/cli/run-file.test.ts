import { spawnSync } from "node:child_process";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LocalRun } from "../../cli/run-file.ts";
import { findLocalRun, leaveRunFile, RUN_FILE } from "../../cli/run-file.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";

let workingFolder: string;
let folder: RunFolder;
beforeEach(() => {
  workingFolder = mkdtempSync(join(tmpdir(), "sluice-working-"));
  folder = createRunFolder();
});
afterEach(() => {
  rmSync(workingFolder, { recursive: true, force: true });
  folder.remove();
});

const aRun = (pid = process.pid): LocalRun => ({
  pid,
  url: "http://127.0.0.1:8787",
  secrets: provideSecrets({}),
});

/** The id of a program that has ended. */
const deadPid = () => spawnSync(process.execPath, ["--version"]).pid;

describe("a run file", () => {
  test("is found in the folder it was left in, and is for this user only", () => {
    const run = aRun();
    leaveRunFile(workingFolder, folder, run);
    expect(findLocalRun(workingFolder)).toEqual(run);
    expect(statSync(join(workingFolder, RUN_FILE)).mode & 0o777).toBe(0o600);
    expect(statSync(join(workingFolder, ".sluice")).mode & 0o777).toBe(0o700);
  });

  test("is gone with its run, link and all", () => {
    const takeAway = leaveRunFile(workingFolder, folder, aRun());
    takeAway();
    expect(findLocalRun(workingFolder)).toBeUndefined();
    expect(readdirSync(join(workingFolder, ".sluice"))).toEqual([]);
  });

  test("of a command line that is gone is none", () => {
    leaveRunFile(workingFolder, folder, aRun(deadPid()));
    expect(findLocalRun(workingFolder)).toBeUndefined();
  });

  test("whose secrets went with their folder is none, and makes room for the next", () => {
    leaveRunFile(workingFolder, folder, aRun());
    folder.remove();
    expect(findLocalRun(workingFolder)).toBeUndefined();
    folder = createRunFolder();
    const next = aRun();
    leaveRunFile(workingFolder, folder, next);
    expect(findLocalRun(workingFolder)).toEqual(next);
  });

  test("of a later run in the same folder is not taken away by an earlier one", () => {
    const takeAway = leaveRunFile(workingFolder, folder, aRun());
    const later = createRunFolder();
    try {
      const run = aRun();
      leaveRunFile(workingFolder, later, run);
      takeAway();
      expect(findLocalRun(workingFolder)).toEqual(run);
    } finally {
      later.remove();
    }
  });

  test.each(["", "{", "{}", JSON.stringify({ pid: process.pid, url: "http://x" })])(
    "that reads %j is none",
    (text) => {
      mkdirSync(join(workingFolder, ".sluice"));
      writeFileSync(join(workingFolder, RUN_FILE), text);
      expect(findLocalRun(workingFolder)).toBeUndefined();
    },
  );

  test("holds its secrets outside the working folder, where only a link lies", () => {
    leaveRunFile(workingFolder, folder, aRun());
    expect(lstatSync(join(workingFolder, RUN_FILE)).isSymbolicLink()).toBe(true);
  });
});
