import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { workerdBinary } from "../../bench/support/workerd-child.ts";
import { applyConfiguration } from "../../cli/admin-client.ts";
import { keyHasher } from "../../cli/read-configuration.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { parseConfiguration } from "../../src/tenants/configuration.ts";
import { runRecorded } from "../cli/support/recorded-terminal.ts";
import { eventually } from "../support/eventually.ts";
import { takeFreePorts } from "../support/free-ports.ts";

const ENGINE_URL = "http://127.0.0.1:9";
const folder = createRunFolder();
const secrets = provideSecrets({});
let url = "";
let workerd: ChildProcess | undefined;

async function serve(): Promise<void> {
  workerd = spawn(workerdBinary(), ["serve", join(folder.path, "dist", "workerd.capnp")], {
    env: { PATH: process.env["PATH"], SLUICE_MODE: "local", ...secrets },
    stdio: "ignore",
  });
  await eventually("workerd answers", async () => (await fetch(`${url}/health`)).status > 0);
}

/** Whether workerd ends by itself when it is asked to. */
async function endsBySigterm(): Promise<boolean> {
  if (workerd === undefined) throw new Error("It is to run");
  const exited = once(workerd, "exit").then(() => true);
  workerd.kill("SIGTERM");
  const isOver = await Promise.race([exited, sleep(30_000, false)]);
  workerd.kill("SIGKILL");
  await exited;
  return isOver;
}

/** Dials in as an engine does. */
async function dialIn(): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/internal/pools/gpus`, {
    headers: { authorization: `Bearer ${secrets.SLUICE_REPLICA_SECRET}` },
  });
  await once(socket, "open");
  return socket;
}

async function pools(...words: readonly string[]): Promise<string> {
  vi.stubEnv("SLUICE_ADMIN_KEY", secrets.SLUICE_ADMIN_KEY);
  const { exitCode, stdout, stderr } = await runRecorded("pools", ...words, "--url", url);
  return exitCode === 0 ? stdout : `${exitCode}: ${stderr}`;
}

beforeAll(async () => {
  const [port = 0] = await takeFreePorts(1);
  url = `http://127.0.0.1:${port}`;
  const outFolder = join(folder.path, "dist");
  const flags = ["--workerd", `127.0.0.1:${port}`, "--objects", join(folder.path, "objects")];
  const built = await runRecorded("build", "--outdir", outFolder, ...flags);
  if (built.exitCode !== 0) throw new Error(built.stderr);
  await serve();
  const hashKey = keyHasher(secrets.SLUICE_KEY_PEPPER);
  const parsed = parseConfiguration(
    {
      models: { chat: { context: 8192, pool: "gpus" } },
      pools: { gpus: { engine: "sluice", replicas: [{ url: ENGINE_URL }] } },
      tenants: {
        acme: { keys: [{ name: "app", key: "sk-acme-app" }], models: ["chat"], class: "bulk" },
      },
    },
    { mode: "local", hashKey },
  );
  if (parsed.kind === "invalid") throw new Error(JSON.stringify(parsed.problems));
  const access = { gatewayUrl: url, adminKey: secrets.SLUICE_ADMIN_KEY };
  await applyConfiguration(access, parsed.configuration);
});
afterAll(() => {
  workerd?.kill("SIGKILL");
  folder.remove();
});

test("workerd ends when it is asked to, though engines were dialled in and have left", async () => {
  const [polite, rude] = [await dialIn(), await dialIn()];
  const closed = once(polite, "close");
  polite.close();
  rude.terminate();
  await closed;
  // It hears of the other's end by itself.
  await sleep(200);
  expect(await endsBySigterm()).toBe(true);
  await serve();
});

test("an operator closes the pools of a gateway whose engines stay, stops it, and opens them again", async () => {
  expect(await pools("list")).toMatch(
    /^gpus +open +0 +0 +http:\/\/127.0.0.1:9 +disconnected +healthy +0$/m,
  );
  const engine = await dialIn();
  const closed = once(engine, "close");
  expect(await pools("close", "--all", "--wait", "10")).toBe("gpus is closed");
  expect((await closed)[0]).toBe(4423);
  await expect(dialIn()).rejects.toThrow("503");
  expect(await endsBySigterm()).toBe(true);

  await serve();
  expect(await pools("list")).toMatch(/^gpus +closed/m);
  expect(await pools("open", "--pool", "gpus")).toBe("gpus is open");
  (await dialIn()).terminate();
});

test("an operator drains a replica and uses it again", async () => {
  expect(await pools("drain", "gpus", ENGINE_URL, "--wait", "1")).toBe(
    `Nothing new is sent to ${ENGINE_URL}`,
  );
  expect(await pools("drain", "gpus", "http://127.0.0.1:8")).toMatch(/^1: .*There is no replica/s);
  expect(await pools("drain", "nope", ENGINE_URL)).toMatch(/^1: .*404/s);
  expect(await pools("resume", "gpus", ENGINE_URL)).toBe(`${ENGINE_URL} is used again`);
  expect(await pools("close")).toMatch(/^2: .*either --pool or --all/s);
});
