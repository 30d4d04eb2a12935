import { once } from "node:events";
import { createInterface } from "node:readline";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hasLlamaCpp } from "../../bench/engine/llama-cpp-side.ts";
import { eventually } from "../support/eventually.ts";
import { takeFreePorts } from "../support/free-ports.ts";
import type { SseFrame } from "../../src/protocol/sse.ts";
import { RunningStack } from "./support/running-stack.ts";

const CONFIGURATION = new URL("llama-cpp/sluice.yaml", import.meta.url);
const SERVER = new URL("llama-cpp/server.ts", import.meta.url).pathname;
/** A step of a model of some size; without it the bundled one is over before anybody can leave. */
const STEP_MS = 20;
const STORY = [{ role: "user" as const, content: "Tell me a very long story." }];

if (!hasLlamaCpp) {
  console.log(
    "Skipped: the tests with a real llama.cpp need it installed: " +
      "npm install --prefix bench/peers --no-save --omit=optional node-llama-cpp@3.21.1 @node-llama-cpp/linux-x64@3.21.1",
  );
}

interface Llama {
  readonly program: ChildProcess;
  readonly url: string;
}

let llamas: readonly Llama[] = [];
let stack: RunningStack | undefined;

async function startLlama(port: number): Promise<Llama> {
  const words = ["--import", "tsx", SERVER, String(port), String(STEP_MS)];
  const program = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
  await once(createInterface({ input: program.stdout }), "line");
  return { program, url: `http://127.0.0.1:${port}` };
}

async function metricOf({ url }: Llama, name: string): Promise<number> {
  const answer = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^llamacpp:${name} (\\d+)$`, "m").exec(answer)?.[1]);
}

async function framesOf(frames: AsyncIterable<SseFrame>): Promise<SseFrame[]> {
  const all: SseFrame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

const isEnd = ({ event, data }: SseFrame): boolean => event === "error" || data === "[DONE]";

/** The stack that the hook has started. */
function running(): RunningStack {
  if (stack === undefined) throw new Error("The stack has not started");
  return stack;
}

describe.skipIf(!hasLlamaCpp)("a pool of llama.cpp servers", () => {
  beforeEach(async () => {
    const ports = await takeFreePorts(2);
    llamas = await Promise.all(ports.map(startLlama));
    stack = await RunningStack.readyWith(CONFIGURATION, ports);
  }, 120_000);

  afterEach(async () => {
    await stack?.dispose();
    for (const { program } of llamas) program.kill("SIGKILL");
  });

  test("serves the official client, streamed and whole, the very same text", async () => {
    const client = running().clientOf("patient");
    const asked = { model: "sluice-tiny", messages: STORY, max_tokens: 30, temperature: 0 };
    const whole = await client.chat.completions.create(asked);
    let streamed = "";
    const stream = await client.chat.completions.create({ ...asked, stream: true });
    for await (const { choices } of stream) streamed += choices[0]?.delta.content ?? "";
    expect(streamed).toBe(whole.choices[0]?.message.content);
    expect(streamed.split(" ").length).toBeGreaterThan(10);
    expect(whole.usage).toMatchObject({ completion_tokens: 30 });
    expect(whole.model).toBe("sluice-tiny");
  });

  test("lets go of the slot of a client that leaves", async () => {
    const frames = running().streamStory("patient", { max_tokens: 900 });
    await frames.next();
    const busy = await Promise.all(llamas.map((llama) => metricOf(llama, "requests_processing")));
    expect(Math.max(...busy)).toBe(1);
    await frames.return(undefined);
    await eventually("both are idle", async () => {
      const counts = await Promise.all(
        llamas.map((llama) => metricOf(llama, "requests_processing")),
      );
      return counts.every((count) => count === 0);
    });
  });

  test("keeps the queue at the gateway, and refuses at once what could not be in time", async () => {
    const story = { max_tokens: 200 };
    // Eight slots are all there are; they are taken for some four seconds.
    let ended = 0;
    const held = Array.from({ length: 8 }, async () => {
      const frames = await framesOf(running().streamStory("patient", story));
      ended += 1;
      return frames;
    });
    await eventually("all slots are taken", async () => {
      const counts = await Promise.all(
        llamas.map((llama) => metricOf(llama, "requests_processing")),
      );
      return counts.every((count) => count === 4);
    });
    const refused = await framesOf(running().streamStory("hasty", story)).catch(String);
    expect(ended).toBe(0);
    const deferred = await Promise.all(llamas.map((llama) => metricOf(llama, "requests_deferred")));
    // Whoever cannot be in time is told so, in its stream where that has begun.
    expect(JSON.stringify(refused)).toMatch(/server_is_overloaded|rate_limit_exceeded/);
    expect(deferred).toEqual([0, 0]);
    for (const frames of await Promise.all(held)) expect(frames.at(-1)?.data).toBe("[DONE]");
  });

  test("hides the death of one, and ends a stream that it breaks by one error", async () => {
    const streams = Array.from({ length: 6 }, () =>
      framesOf(running().streamStory("patient", { max_tokens: 150 })),
    );
    await eventually("both are at work", async () => {
      const counts = await Promise.all(
        llamas.map((llama) => metricOf(llama, "requests_processing")),
      );
      return counts.every((count) => count > 0);
    });
    llamas[0]?.program.kill("SIGKILL");
    for (const frames of await Promise.all(streams)) {
      expect(frames.filter(isEnd)).toHaveLength(1);
      expect(isEnd(frames.at(-1) ?? { data: "" })).toBe(true);
    }
    // What begins now is answered by the other one.
    for (let request = 0; request < 4; request += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const frames = await framesOf(running().streamStory("patient", { max_tokens: 5 }));
      expect(frames.at(-1)?.data).toBe("[DONE]");
    }
  });
});
