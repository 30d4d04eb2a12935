import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildEngine } from "../../cli/engine-build.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { PACKAGE_ROOT } from "../../cli/wrangler.ts";
import type { LiveProgram } from "../support/live-programs.ts";
import { descendantsOf } from "../support/live-programs.ts";

const START = join(PACKAGE_ROOT, "gpu-backend", "start.mjs");

let folder: RunFolder;
beforeEach(() => void (folder = createRunFolder()));
afterEach(() => folder.remove());

/** Runs an engine's program from another folder than any that it could need. */
async function runEngine(buildFolder: string, ...flags: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [START, ...flags], {
    cwd: "/",
    env: { ...process.env, SLUICE_ENGINE_BUILD: buildFolder },
  });
  return stdout;
}

/** Lists the compilers that this process has started and that are still there. */
function listCompilers(): readonly LiveProgram[] {
  return descendantsOf(process.pid).filter(({ commandLine }) => commandLine.includes("esbuild"));
}

test("an engine runs from the compiled programs, and from nothing else where they are named", async () => {
  await buildEngine(folder.path);
  expect(await runEngine(folder.path, "--help")).toContain("--exit-with-stdin");
  await expect(runEngine(join(folder.path, "elsewhere"), "--help")).rejects.toMatchObject({
    stderr: expect.stringContaining("ERR_MODULE_NOT_FOUND"),
  });
});

test("the compiler is gone when it is done", async () => {
  const building = buildEngine(folder.path);
  expect(listCompilers()).not.toEqual([]);
  await building;
  expect(listCompilers()).toEqual([]);
});

test("what cannot be compiled is told in the compiler's words", async () => {
  const file = join(folder.path, "taken");
  writeFileSync(file, "");
  await expect(buildEngine(file)).rejects.toThrow(/^The engine cannot be compiled\n.*taken/s);
});
