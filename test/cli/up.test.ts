import { createServer } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { takeFreePorts } from "../support/free-ports.ts";
import { writeLocalConfiguration } from "../support/local-configuration.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());

const listeners: ReturnType<typeof createServer>[] = [];
afterEach(() => listeners.splice(0).forEach((listener) => listener.close()));
afterEach(() => vi.unstubAllEnvs());

async function occupy(port: number): Promise<void> {
  const listener = createServer();
  await new Promise<void>((resolve, reject) => {
    listener.once("error", reject);
    listener.listen(port, "127.0.0.1", resolve);
  });
  listeners.push(listener);
}

/** Takes a free port whose successor is taken, by us. */
async function takePortBeforeTaken(): Promise<number> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    // oxlint-disable-next-line no-await-in-loop
    const [port = 0] = await takeFreePorts(1);
    try {
      // oxlint-disable-next-line no-await-in-loop
      await occupy(port + 1);
      return port;
    } catch {
      // Somebody else has it; another pair will do.
    }
  }
  throw new Error("No two neighbouring ports are free");
}

// What follows ends before anything is started; test/e2e starts the real thing.
describe("sluice up refuses to start", () => {
  test("with roles that could not work together, or with nothing for KV to come through", async () => {
    const file = writeLocalConfiguration(folder.path, await takeFreePorts(2));
    const up = async (...flags: string[]) => (await runRecorded("up", file, ...flags)).stderr;
    expect(await up("--roles=prefill,prefill")).toContain("--roles has nobody decode");
    expect(await up("--roles=prefill,judge")).toContain(
      '--roles: Expected prefill, decode or mixed, with commas between them, found "prefill,judge"',
    );
    expect((await up("--roles=judge,jury")).match(/--roles: /g)).toHaveLength(1);
    expect(await up("--roles=prefill,decode", "--kv-host-mib=0")).toContain(
      "--kv-host-mib: expected more than 0 with --roles",
    );
  });

  test("when ports are taken: all of them, with the flag or the line that changes each", async () => {
    const [gatewayPort = 0, first = 0, second = 0] = await takeFreePorts(3);
    const file = writeLocalConfiguration(folder.path, [first, second]);
    await occupy(gatewayPort);
    await occupy(second);
    const { exitCode, stdout, stderr } = await runRecorded("up", file, `--port=${gatewayPort}`);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    const [gateway, replica, ...others] = stderr.split("\n");
    expect(gateway).toBe(
      `Port ${gatewayPort} on 127.0.0.1, which the gateway needs, is taken by another program: choose another with --port`,
    );
    expect(replica).toMatch(
      new RegExp(
        `^Port ${second} on 127.0.0.1, which engine replica-2 needs, is taken by another program: change the URL at .*sluice.yaml:\\d+$`,
      ),
    );
    expect(others).toEqual([]);
  });

  test("when an added replica's port is taken: the flag that added it is named", async () => {
    const second = await takePortBeforeTaken();
    const [gatewayPort = 0, first = 0] = await takeFreePorts(2);
    const file = writeLocalConfiguration(folder.path, [first, second]);
    const { stderr } = await runRecorded("up", file, `--port=${gatewayPort}`, "--replicas=3");
    expect(stderr).toContain(`Port ${second + 1} on 127.0.0.1, which engine replica-3 needs`);
    expect(stderr).toContain("choose fewer with --replicas");
  });

  test("when its address is none of this machine: --host is named, not --port", async () => {
    const ports = await takeFreePorts(2);
    const file = writeLocalConfiguration(folder.path, ports);
    const { exitCode, stderr } = await runRecorded("up", file, "--host=192.0.2.1");
    expect(exitCode).toBe(1);
    expect(stderr).toBe(
      "Address 192.0.2.1, which the gateway needs, is not one that this machine has: choose another with --host",
    );
  });

  test("when the file is wrong", async () => {
    const file = join(folder.path, "wrong.yaml");
    writeFileSync(file, "models: { tiny: { context: many, pool: local } }\n");
    const { exitCode, stderr } = await runRecorded("up", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("wrong.yaml:1 models.tiny.context: expected");
  });

  test("when the file has no replica on this machine", async () => {
    const file = join(folder.path, "far.yaml");
    writeFileSync(
      file,
      `models: { tiny: { context: 2048, pool: far } }
pools: { far: { engine: sluice, replicas: [{ url: "https://gpu-1.example" }] } }
tenants: { acme: { keys: [], models: [tiny], class: chat } }
`,
    );
    const { exitCode, stderr } = await runRecorded("up", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("far.yaml: No pool has a replica at a loopback URL");
  });

  test("when a secret of the environment is no secret", async () => {
    vi.stubEnv("SLUICE_ADMIN_KEY", "guess");
    const { exitCode, stderr } = await runRecorded("up");
    expect(exitCode).toBe(1);
    expect(stderr).toContain("SLUICE_ADMIN_KEY");
    expect(stderr).not.toContain("guess");
  });
});
