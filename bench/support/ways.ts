import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Child } from "../../cli/stack/child.ts";
import { pollUntil } from "../../cli/stack/poll.ts";
import { PACKAGE_ROOT } from "../../cli/wrangler.ts";
import { assert } from "../../src/base/assert.ts";
import { takeFreePorts } from "../../test/support/free-ports.ts";
import type { MeasuredStack } from "./measured-stack.ts";
import { withMeasuredStack } from "./measured-stack.ts";
import { cpuMsOf, findProcess } from "./process-cpu.ts";
import type { TimedRequest } from "./timed-request.ts";
import { workerdBinary } from "./workerd-child.ts";

/** A way to one engine: straight, or through something. */
export interface Way {
  readonly name: "engine alone" | "pass-through Worker" | "Sluice" | "Portkey gateway";
  readonly target: Pick<TimedRequest, "url" | "headers">;
  /** CPU time that what lies on the way has used so far; NaN where nothing does, or nobody knows. */
  readonly cpuMs: () => number;
}

/** A program that stands between a client and the engine. */
interface Middle {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly way: (port: number) => Omit<Way, "cpuMs">;
}

const PORTKEY = join(PACKAGE_ROOT, "bench/peers/node_modules/@portkey-ai/gateway");
const READY_WITHIN_MS = 20_000;

/** Whether `npm install --prefix bench/peers` was run. */
export const hasPortkey = existsSync(PORTKEY);

/**
 * Starts one engine and everything that is measured before it, hands over the ways through them, and
 * ends all of it when `measure` is done or has failed.
 */
export async function withWays<Result>(
  measure: (model: string, ways: readonly Way[]) => Promise<Result>,
): Promise<Result> {
  return withMeasuredStack(async (stack) => {
    const [passPort = 0, portkeyPort = 0] = await takeFreePorts(2);
    const children: Child[] = [];
    try {
      const ways: Way[] = [
        { name: "engine alone", target: stack.direct, cpuMs: () => Number.NaN },
        await start(passThrough(stack, passPort), passPort, stack, children),
        { name: "Sluice", target: stack.gateway, cpuMs: watch(stack.gatewayCommand) },
      ];
      if (hasPortkey) {
        ways.push(await start(portkey(stack, portkeyPort), portkeyPort, stack, children));
      }
      return await measure(stack.model, ways);
    } finally {
      await Promise.all(children.map((child) => child.stop()));
    }
  });
}

async function start(
  { command, environment, way }: Middle,
  port: number,
  { folder }: MeasuredStack,
  children: Child[],
): Promise<Way> {
  const keeper = join(PACKAGE_ROOT, "cli", "keeper.mjs");
  const child = new Child({
    command: [process.execPath, keeper, folder, ...command],
    folder,
    environment: { PATH: process.env["PATH"], ...environment },
    onLine: () => undefined,
  });
  children.push(child);
  await pollUntil(() => answers(port), AbortSignal.timeout(READY_WITHIN_MS));
  return { ...way(port), cpuMs: watch(command) };
}

async function answers(port: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined);
  await response?.body?.cancel();
  return response !== undefined;
}

function watch(command: readonly string[]): () => number {
  const pid = findProcess(command);
  return () => (pid === undefined ? Number.NaN : cpuMsOf(pid));
}

function passThrough({ direct, folder, engineUrl }: MeasuredStack, port: number): Middle {
  const configFile = join(folder, "pass-through.capnp");
  copyFileSync(join(import.meta.dirname, "pass-through.js"), join(folder, "pass-through.js"));
  writeFileSync(
    configFile,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "pass-through.js", esModule = embed "pass-through.js")],
  compatibilityDate = "2026-04-01",
  bindings = [(name = "UPSTREAM", text = ${JSON.stringify(engineUrl)})],
);
`,
  );
  return {
    command: [workerdBinary(), "serve", configFile],
    environment: {},
    way: () => ({
      name: "pass-through Worker",
      target: {
        url: toUrl(port),
        headers: withSalt(direct.headers, "pass-through"),
      },
    }),
  };
}

/** As its own documentation has it for an engine of one's own, on a host that is said to be trusted. */
function portkey({ direct, engineUrl }: MeasuredStack, port: number): Middle {
  return {
    command: [
      process.execPath,
      join(PORTKEY, "build/start-server.js"),
      `--port=${port}`,
      "--headless",
    ],
    environment: { TRUSTED_CUSTOM_HOSTS: "127.0.0.1", NODE_ENV: "production" },
    way: () => ({
      name: "Portkey gateway",
      target: {
        url: toUrl(port),
        headers: {
          ...withSalt(direct.headers, "portkey"),
          "x-portkey-provider": "openai",
          "x-portkey-custom-host": `${engineUrl}/v1`,
          "x-portkey-forward-headers": SALT_HEADER,
        },
      },
    }),
  };
}

const toUrl = (port: number) => `http://127.0.0.1:${port}/v1/chat/completions`;

/** Of its own for each way, or the engine would have the prompt in its cache from the one before. */
function withSalt(headers: Readonly<Record<string, string>>, salt: string) {
  assert(SALT_HEADER in headers, "the engine is asked with a salt");
  return { ...headers, [SALT_HEADER]: salt };
}

const SALT_HEADER = "x-gw-cache-salt";
