import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { parseApiKey, parseKeyHash } from "../../src/tenants/configuration-file.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { leaveRunFile } from "../../cli/run-file.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const PEPPER = "a-pepper-of-32-characters-or-more";
const LAUNCHER = new URL("../../cli/sluice.mjs", import.meta.url).pathname;

const hashOf = (key: string, pepper = PEPPER) =>
  `hmac-sha256:${createHmac("sha256", pepper).update(key).digest("hex")}`;

function runWithStdin(input: string, ...flags: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [LAUNCHER, "hash-key", "--stdin", ...flags],
    { input, encoding: "utf8", env: { ...process.env, SLUICE_KEY_PEPPER: PEPPER } },
  );
  return { status, stdout, stderr };
}

describe("sluice hash-key", () => {
  beforeEach(() => vi.stubEnv("SLUICE_KEY_PEPPER", PEPPER));
  afterEach(() => vi.unstubAllEnvs());

  test("makes a key that is new each time, and its hash as a file holds it", async () => {
    const keys = new Set<string>();
    for (const _ of [1, 2]) {
      // oxlint-disable-next-line no-await-in-loop
      const { exitCode, stdout, stderr } = await runRecorded("hash-key");
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      const [first = "", second = "", ...others] = stdout.split("\n");
      const key = /^New key, shown only this once: (sk-sluice-[\w-]{48})$/.exec(first)?.[1] ?? "";
      expect(parseApiKey(key)).toBe(key);
      expect(second).toBe(`hash: "${hashOf(key)}"`);
      expect(others).toEqual([]);
      keys.add(key);
    }
    expect(keys.size).toBe(2);
  });

  test("with a name the line is an entry of a tenant's keys", async () => {
    const { stdout } = await runRecorded("hash-key", "--name", "prod");
    const line = stdout.split("\n")[1] ?? "";
    const [, hash = ""] = /^- \{ name: "prod", hash: "(.+)" \}$/.exec(line) ?? [];
    expect(parseKeyHash(hash)).toMatch(/^[0-9a-f]{64}$/);
    expect((await runRecorded("hash-key", "--name", "no name")).exitCode).toBe(2);
  });

  test("JSON is for programs", async () => {
    const { stdout } = await runRecorded("hash-key", "--json", "--name=prod");
    const { key, ...rest }: { key: string } = JSON.parse(stdout);
    expect(rest).toEqual({ name: "prod", hash: hashOf(key) });
  });

  test("a key of stdin is hashed and not repeated", () => {
    expect(runWithStdin("sk-a-key-that-exists\n")).toEqual({
      status: 0,
      stdout: `hash: "${hashOf("sk-a-key-that-exists")}"\n`,
      stderr: "Warning: only a local gateway takes a key that sluice has not made\n",
    });
  });

  test("a key that sluice has made under this pepper is hashed without a warning", async () => {
    const made: { key: string; hash: string } = JSON.parse(
      (await runRecorded("hash-key", "--json")).stdout,
    );
    expect(runWithStdin(made.key)).toEqual({
      status: 0,
      stdout: `hash: "${made.hash}"\n`,
      stderr: "",
    });
  });

  test.each([
    ["nothing", ""],
    ["another beginning", "no-key"],
    ["two lines", "sk-one\nsk-two"],
    ["too long a line", `sk-${"x".repeat(5000)}`],
  ])("stdin with %s is no key, and is not repeated", (_, input) => {
    expect(runWithStdin(input)).toEqual({
      status: 1,
      stdout: "",
      stderr:
        "Expected a key of 8 to 512 visible ASCII characters that begins with sk- on stdin, found something else\n",
    });
  });

  test("a key as a word is refused and not repeated", async () => {
    const run = await runRecorded("hash-key", "sk-a-key-that-exists", "another");
    expect(run.exitCode).toBe(2);
    expect(run.stderr).toContain("--stdin");
    expect(JSON.stringify(run)).not.toContain("sk-a-key");
  });

  test("a pepper that the gateway would refuse, or none, is told", async () => {
    vi.stubEnv("SLUICE_KEY_PEPPER", "short");
    expect(await runRecorded("hash-key")).toMatchObject({ exitCode: 1, stdout: "" });
    vi.stubEnv("SLUICE_KEY_PEPPER", "");
    const { exitCode, stderr } = await runRecorded("hash-key");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("SLUICE_KEY_PEPPER in the environment, or --local in the folder");
  });

  test("--local takes the pepper of the run in this folder", async () => {
    vi.stubEnv("SLUICE_KEY_PEPPER", undefined);
    const folder = createRunFolder();
    const secrets = provideSecrets({});
    const { path } = folder;
    vi.spyOn(process, "cwd").mockReturnValue(path);
    try {
      leaveRunFile(path, folder, { pid: process.pid, url: "http://127.0.0.1:1", secrets });
      const { stdout } = await runRecorded("hash-key", "--local", "--json");
      const { key, hash }: { key: string; hash: string } = JSON.parse(stdout);
      expect(hash).toBe(hashOf(key, secrets.SLUICE_KEY_PEPPER));
    } finally {
      vi.restoreAllMocks();
      folder.remove();
    }
  });
});
