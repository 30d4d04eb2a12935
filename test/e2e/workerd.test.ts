import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { workerdBinary } from "../../bench/support/workerd-child.ts";
import { applyConfiguration } from "../../cli/admin-client.ts";
import { keyHasher } from "../../cli/read-configuration.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { API_KEY_SECRET_BYTES, makeApiKey } from "../../src/tenants/api-key.ts";
import { parseConfiguration } from "../../src/tenants/configuration.ts";
import { runRecorded } from "../cli/support/recorded-terminal.ts";
import { eventually } from "../support/eventually.ts";
import { takeFreePorts } from "../support/free-ports.ts";

const folder = createRunFolder();
const secrets = provideSecrets({});
const POOL_TOKEN = "a-token-of-the-pool";
/** As `sluice hash-key` makes one: in production others are junk. */
const API_KEY = makeApiKey(randomBytes(API_KEY_SECRET_BYTES).toString("base64url"), (text) =>
  createHmac("sha256", secrets.SLUICE_KEY_PEPPER).update(text).digest("base64url"),
);

/** A server that is not ours, with the OpenAI API; it answers only those who have its token. */
const server = createServer((request, response) => {
  const isAllowed = request.headers.authorization === `Bearer ${POOL_TOKEN}`;
  const choice = {
    index: 0,
    message: { role: "assistant", content: "Paris" },
    finish_reason: "stop",
  };
  const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
  response
    .writeHead(isAllowed ? 200 : 401, { "content-type": "application/json" })
    .end(JSON.stringify({ object: "chat.completion", model: "up", choices: [choice], usage }));
});

let url = "";
let serverUrl = "";
let workerd: ChildProcess | undefined;

/** Starts the bundle as `docs/DEPLOY.md` says, in production mode. */
async function serve(environment: Readonly<Record<string, string>>): Promise<void> {
  await stop();
  workerd = spawn(workerdBinary(), ["serve", join(folder.path, "dist", "workerd.capnp")], {
    env: { PATH: process.env["PATH"], SLUICE_MODE: "production", ...environment },
    stdio: "ignore",
  });
  await eventually("workerd answers", async () => (await fetch(`${url}/health`)).status > 0);
}

async function stop(): Promise<void> {
  if (workerd === undefined || workerd.exitCode !== null) return;
  const exited = once(workerd, "exit");
  workerd.kill("SIGTERM");
  await exited;
  workerd = undefined;
}

function ask(): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${API_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "chat",
      messages: [{ role: "user", content: "Capital of France?" }],
    }),
  });
}

beforeAll(async () => {
  const [port = 0, serverPort = 0] = await takeFreePorts(2);
  url = `http://127.0.0.1:${port}`;
  serverUrl = `http://127.0.0.1:${serverPort}`;
  await new Promise<void>((resolve) => server.listen(serverPort, "127.0.0.1", resolve));
  const outFolder = join(folder.path, "dist");
  const flags = [
    "--outdir",
    outFolder,
    "--workerd",
    `127.0.0.1:${port}`,
    "--secrets",
    "POOL_TOKEN",
  ];
  const built = await runRecorded("build", ...flags);
  if (built.exitCode !== 0) throw new Error(built.stderr);
});

afterAll(async () => {
  await stop();
  server.close();
  folder.remove();
});

describe("the bundle under workerd serve", () => {
  test("without its secrets serves nothing, and says all that it lacks", async () => {
    await serve({});
    const response = await fetch(`${url}/health`);
    expect(response.status).toBe(503);
    const told = await response.text();
    for (const name of Object.keys(secrets)) expect(told).toContain(`${name} is missing`);
    await stop();
  });

  test("answers from a pool with a credential of its own, also after it was started again", async () => {
    await serve({ ...secrets, POOL_TOKEN });
    expect((await fetch(`${url}/health`)).status).toBe(200);
    const hashKey = keyHasher(secrets.SLUICE_KEY_PEPPER);
    const parsed = parseConfiguration(
      {
        models: { chat: { context: 8192, pool: "gpus" } },
        pools: {
          gpus: {
            engine: "openai",
            replicas: [{ url: serverUrl }],
            auth: { secret: "POOL_TOKEN" },
          },
        },
        tenants: {
          acme: {
            keys: [{ name: "prod", hash: `hmac-sha256:${hashKey(API_KEY)}` }],
            models: ["chat"],
            class: "bulk",
          },
        },
      },
      { mode: "production", hashKey },
    );
    if (parsed.kind === "invalid") throw new Error(JSON.stringify(parsed.problems));
    const access = { gatewayUrl: url, adminKey: secrets.SLUICE_ADMIN_KEY };
    await applyConfiguration(access, parsed.configuration);
    const first = await ask();
    expect(first.status).toBe(200);
    expect(await first.json()).toMatchObject({ choices: [{ message: { content: "Paris" } }] });

    await stop();
    await serve({ ...secrets, POOL_TOKEN });
    expect((await ask()).status).toBe(200);
    const usage = await fetch(`${url}/v1/usage`, {
      headers: { authorization: `Bearer ${API_KEY}` },
    });
    expect(await usage.json()).toMatchObject({ requests: 2, prompt_tokens: 10 });
  });
});
