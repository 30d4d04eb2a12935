import { existsSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { Child } from "../../../cli/stack/child.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import { eventually } from "../../support/eventually.ts";
import { LineQueue } from "../../support/line-queue.ts";
import { isAlive, whenDead } from "../../support/live-programs.ts";

const KEEPER = new URL("../../../cli/keeper.mjs", import.meta.url).pathname;

/** A program that starts another one; both ignore SIGTERM unless told otherwise. */
const STUBBORN_PARENT = `
  const { spawn } = require("node:child_process");
  const idle = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('up ' + process.pid)";
  spawn(process.execPath, ["-e", idle], { stdio: "inherit" });
  process.on("SIGTERM", () => {});
  console.log("up " + process.pid);
  setInterval(() => {}, 1000);
`;

const started: Child[] = [];
afterEach(() => started.splice(0).forEach((child) => child.kill()));

// A test that fails must not leave its stubborn programs to the machine.
const stubborn: number[] = [];
afterEach(() =>
  stubborn
    .splice(0)
    .filter(isAlive)
    .forEach((pid) => process.kill(pid, "SIGKILL")),
);

/** Starts a script under this Node and lets its lines be awaited. */
function start(script: string, options: { keeper?: string; stopGraceMs?: number } = {}) {
  const lines = new LineQueue();
  const words = [process.execPath, "-e", script];
  const child = new Child({
    command:
      options.keeper === undefined ? words : [process.execPath, KEEPER, options.keeper, ...words],
    folder: ".",
    environment: process.env,
    onLine: (line) => lines.push(line),
    stopGraceMs: options.stopGraceMs ?? 200,
  });
  started.push(child);
  return { child, nextLine: () => lines.next() };
}

/** Starts the stubborn pair and returns both of their ids. */
async function startPair(options: { keeper?: string } = {}) {
  const { child, nextLine } = start(STUBBORN_PARENT, options);
  const lines = [await nextLine(), await nextLine()];
  const pids = lines.map((line) => Number(line.split(" ")[1]));
  stubborn.push(...pids);
  return { child, pids };
}

describe("Child", () => {
  test.each([
    ["process.exit(0)", "exit code 0"],
    ["process.exit(7)", "exit code 7"],
    ["process.kill(process.pid, 'SIGKILL')", "signal SIGKILL"],
  ])("%s ends with %s", async (script, cause) => {
    expect(await start(script).child.exited).toEqual({ cause });
  });

  test("a program that does not exist has an exit that says so, and no pid", async () => {
    const child = new Child({
      command: ["/no/such/program"],
      folder: ".",
      environment: {},
      onLine: () => undefined,
    });
    expect((await child.exited).cause).toContain("ENOENT");
    expect(child.pid).toBeUndefined();
    await child.stop();
  });

  test("all it wrote has arrived when its exit is told", async () => {
    const { child } = start("for (let i = 0; i < 100; i++) console.log(i); console.error('last')");
    await child.exited;
    expect(child.tail).toHaveLength(20);
    expect(child.tail).toContain("99");
    expect(child.tail).toContain("last");
  });

  test("a line without end is cut instead of kept", async () => {
    const { child } = start("process.stdout.write('x'.repeat(1e6))");
    await child.exited;
    expect(child.tail.map((line) => line.length)).toEqual([2000]);
  });

  test("its stdin ends when it is us who end it, not before", async () => {
    const { child, nextLine } = start(
      "process.stdin.on('end', () => console.log('ended')).resume(); console.log('up')",
    );
    expect(await nextLine()).toBe("up");
    await child.stop();
    expect(child.tail).toEqual(["up"]);
  });

  test("a program that ignores SIGTERM is killed after the grace, with what it started", async () => {
    const { child, pids } = await startPair();
    await child.stop();
    await Promise.all(pids.map(whenDead));
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("what it started does not outlive it", async () => {
    const { child, pids } = await startPair();
    process.kill(child.pid ?? 0, "SIGKILL");
    expect(await child.exited).toEqual({ cause: "signal SIGKILL" });
    await Promise.all(pids.map(whenDead));
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("stopping it twice, or when it has ended, is harmless", async () => {
    const { child } = start("");
    await Promise.all([child.stop(), child.stop()]);
    await child.stop();
    child.kill();
    expect((await child.exited).cause).toMatch(/exit code 0|signal SIGTERM/);
  });
});

describe("keeper.mjs", () => {
  test("the command's exit code is the keeper's", async () => {
    const folder = createRunFolder();
    const { child } = start("process.exit(7)", { keeper: folder.path });
    expect(await child.exited).toEqual({ cause: "exit code 7" });
    expect(existsSync(folder.path)).toBe(true);
    folder.remove();
  });

  test("SIGTERM to the keeper reaches the command, and its folder stays the parent's", async () => {
    const folder = createRunFolder();
    const { child, nextLine } = start(
      "process.on('SIGTERM', () => process.exit(3)); setInterval(() => {}, 1000); console.log('up')",
      { keeper: folder.path, stopGraceMs: 10_000 },
    );
    await nextLine();
    await child.stop();
    expect(await child.exited).toEqual({ cause: "exit code 3" });
    expect(existsSync(folder.path)).toBe(true);
    folder.remove();
  });

  test("killing the keeper itself leaves nothing behind", async () => {
    const folder = createRunFolder();
    const { child, pids } = await startPair({ keeper: folder.path });
    process.kill(child.pid ?? 0, "SIGKILL");
    await Promise.all(pids.map(whenDead));
    expect(pids.filter(isAlive)).toEqual([]);
    folder.remove();
  });

  test("without a command it explains itself", async () => {
    const { child } = start("");
    await child.exited;
    const keeper = new Child({
      command: [process.execPath, KEEPER],
      folder: ".",
      environment: process.env,
      onLine: () => undefined,
    });
    expect(await keeper.exited).toEqual({ cause: "exit code 2" });
    expect(keeper.tail[0]).toContain("Usage");
  });

  test.each([
    ["ends at once", "setInterval(() => {}, 1000); console.log('up ' + process.pid)"],
    ["ignores SIGTERM", STUBBORN_PARENT],
  ])("a parent that is killed takes along a command that %s, and the folder", async (_, script) => {
    const folder = createRunFolder();
    // The parent is a program of its own, so that it can be killed: it starts the keeper as we do.
    const parent = start(
      `const { spawn } = require("node:child_process");
       spawn(process.execPath, ${JSON.stringify([KEEPER, folder.path, process.execPath, "-e", script])},
         { stdio: ["pipe", "inherit", "inherit"], detached: true });
       setInterval(() => {}, 1000);`,
    );
    const pid = Number((await parent.nextLine()).split(" ")[1]);
    stubborn.push(pid);
    expect(isAlive(pid)).toBe(true);
    process.kill(parent.child.pid ?? 0, "SIGKILL");
    await whenDead(pid);
    await eventually("the folder is removed", () => !existsSync(folder.path));
  });
});
