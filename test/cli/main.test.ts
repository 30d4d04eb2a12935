import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { runRecorded } from "./support/recorded-terminal.ts";

const COMMANDS = [
  "up",
  "check",
  "apply",
  "diff",
  "history",
  "rollback",
  "tenants",
  "keys",
  "usage",
  "hash-key",
  "doctor",
  "schema",
  "slo",
  "build",
];

describe("runCommandLine()", () => {
  test.each([["--help"], ["-h"], ["help"]])("%s lists every command", async (word) => {
    const { exitCode, stdout } = await runRecorded(word);
    expect(exitCode).toBe(0);
    for (const name of COMMANDS) expect(stdout).toContain(`  ${name} `);
  });

  test("no command at all is wrong use, and lists every command", async () => {
    const { exitCode, stdout, stderr } = await runRecorded();
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toContain("Usage: sluice COMMAND");
  });

  test("an unknown command is named and is wrong use", async () => {
    const { exitCode, stderr } = await runRecorded("down");
    expect(exitCode).toBe(2);
    expect(stderr).toContain('Unknown command "down"');
  });

  test.each(COMMANDS)("%s explains itself, even beside flags that are wrong", async (name) => {
    const { exitCode, stdout, stderr } = await runRecorded(name, "--no-such-flag", "--help");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`^Usage: sluice ${name} `));
    expect(stdout).toContain("--help");
  });

  test.each(COMMANDS)("help %s is the help of %s", async (name) => {
    expect(await runRecorded("help", name)).toEqual(await runRecorded(name, "--help"));
  });

  test("help for a command that is not there is wrong use", async () => {
    const { exitCode, stderr } = await runRecorded("help", "down");
    expect(exitCode).toBe(2);
    expect(stderr).toContain('Unknown command "down"');
  });

  test("--version is the version of the package", async () => {
    const { version }: { version: string } = JSON.parse(
      readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
    );
    expect(await runRecorded("--version")).toEqual({ exitCode: 0, stdout: version, stderr: "" });
  });

  test.each(COMMANDS)("%s refuses a flag that it does not know", async (name) => {
    const { exitCode, stderr } = await runRecorded(name, "--no-such-flag");
    expect(exitCode).toBe(2);
    expect(stderr).toBe(`Unknown option '--no-such-flag'\nSee: sluice ${name} --help`);
  });

  test.each(COMMANDS)(
    "%s can be told to ask the gateway of this folder, if it asks one",
    async (name) => {
      const { stdout } = await runRecorded(name, "--help");
      expect(count(stdout, "--local ")).toBeGreaterThanOrEqual(count(stdout, "--url URL"));
    },
  );

  test.each(["check", "apply"])("%s wants a file", async (name) => {
    const { exitCode, stderr } = await runRecorded(name);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("Expected the FILE");
  });
});

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

test("sluice.mjs waits for a server that closes its end and says nothing, and tells so", async () => {
  const mute = createServer({ allowHalfOpen: true }, (socket) => socket.end().resume());
  mute.listen(0, "127.0.0.1");
  await once(mute, "listening");
  onTestFinished(() => void mute.close());
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on TCP
  const { port } = mute.address() as AddressInfo;
  const launcher = new URL("../../cli/sluice.mjs", import.meta.url).pathname;
  const words = [launcher, "doctor", `http://127.0.0.1:${port}`];
  await expect(promisify(execFile)(process.execPath, words)).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("No answer"),
  });
});

test("sluice.mjs hands its words on and leaves the exit code to the shell", async () => {
  const launcher = new URL("../../cli/sluice.mjs", import.meta.url).pathname;
  const run = promisify(execFile)(process.execPath, [launcher, "down"]);
  await expect(run).rejects.toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining('Unknown command "down"'),
  });
});
