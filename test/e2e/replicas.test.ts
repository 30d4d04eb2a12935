import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SseFrame } from "../../src/protocol/sse.ts";
import { eventually } from "../support/eventually.ts";
import { descendantsOf, pidOf } from "../support/live-programs.ts";
import type { EngineProbe } from "./support/engine-probe.ts";
import { RunningStack } from "./support/running-stack.ts";
import { expectNothingLeft } from "./support/stack-programs.ts";

const MODEL = "sluice-tiny";
/** The promise of class `chat` in `sluice.local.yaml`. */
const CHAT_TTFT_MS = 5_000;
const LAUNCHER = new URL("../../cli/sluice.mjs", import.meta.url).pathname;

const asUser = (content: string) => [{ role: "user" as const, content }];

describe("a gateway whose engines are killed", () => {
  let stack: RunningStack;
  beforeAll(async () => {
    stack = await RunningStack.ready();
  });
  afterAll(() => stack?.dispose());

  async function complete(): Promise<string | null | undefined> {
    const answer = await stack.clientOf("chat").chat.completions.create({
      model: MODEL,
      messages: asUser("Tell me a story about a fox."),
      max_completion_tokens: 8,
    });
    return answer.choices[0]?.message.content;
  }

  /** What comes first of a short answer that is streamed. */
  async function firstTokenOf(tenant: string): Promise<string> {
    const chunks = await stack.clientOf(tenant).chat.completions.create({
      model: MODEL,
      messages: asUser("Tell me a story about a fox."),
      max_completion_tokens: 4,
      stream: true,
    });
    let text = "";
    for await (const chunk of chunks) text ||= chunk.choices[0]?.delta.content ?? "";
    return text;
  }

  async function findRunning(): Promise<EngineProbe> {
    for (const engine of stack.engines) {
      // oxlint-disable-next-line no-await-in-loop
      if ((await engine.metric("engine_num_requests_running")) > 0) return engine;
    }
    throw new Error("No engine runs a request");
  }

  test("a file is applied in the folder where the gateway runs, without a secret being named", async () => {
    const { SLUICE_ADMIN_KEY: _key, SLUICE_KEY_PEPPER: _pepper, ...environment } = process.env;
    const text = readFileSync(stack.file, "utf8");
    writeFileSync(stack.file, text.replace("concurrency: 64", "concurrency: 63"));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [LAUNCHER, "apply", stack.file, "--local"],
      { cwd: stack.folderPath, env: environment },
    );
    expect(stdout).toContain(`${stack.file} is live at ${stack.gatewayUrl} as version 2`);
    // Its plain keys were hashed as the gateway hashes them, so they still open it.
    expect(await complete()).not.toBe("");
  });

  test("a second one cannot take the ports of the first, and is told what to change", async () => {
    const words = [LAUNCHER, "up", stack.file, "--port", String(stack.gatewayPort)];
    const run = promisify(execFile)(process.execPath, words, { cwd: stack.folderPath });
    await expect(run).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^(Port \d+ on .+ is taken by another program: .+\n){3}$/),
    });
  });

  test("an engine that freezes keeps no request from its first token for longer than was promised", async () => {
    const [frozen] = stack.engines;
    process.kill(pidOf(frozen), "SIGSTOP");
    try {
      const startedAtMs = Date.now();
      // More than one, as the pool may send any single one to the other engine.
      const answers = await Promise.all(Array.from({ length: 6 }, () => firstTokenOf("chat")));
      expect(answers.every((text) => text !== "")).toBe(true);
      expect(Date.now() - startedAtMs).toBeLessThan(CHAT_TTFT_MS);
    } finally {
      process.kill(pidOf(frozen), "SIGCONT");
    }
    await stack.whenAllReady();
  });

  test("a stream whose engine dies ends in exactly one error, and the other engine serves on", async () => {
    // What was given up on an engine that froze may still run there: the next to run is the stream's.
    await eventually("no engine runs anything", async () => {
      const running = await Promise.all(
        stack.engines.map((engine) => engine.metric("engine_num_requests_running")),
      );
      return running.every((count) => count === 0);
    });
    const frames: SseFrame[] = [];
    let killed: EngineProbe | undefined;
    for await (const frame of stack.streamStory("interactive")) {
      frames.push(frame);
      if (killed === undefined) {
        killed = await findRunning();
        process.kill(killed.pid, "SIGKILL");
      }
    }
    const errors = frames.filter((frame) => frame.event === "error");
    expect(errors).toEqual([frames.at(-1)]);
    expect(JSON.parse(errors[0]?.data ?? "")).toEqual({
      error: {
        message: expect.any(String),
        type: "server_error",
        param: null,
        code: "upstream_error",
      },
    });
    expect(frames.map((frame) => frame.data)).not.toContain("[DONE]");

    const answers = await Promise.all([complete(), complete(), complete(), complete()]);
    expect(answers.every((text) => typeof text === "string" && text !== "")).toBe(true);

    expect(await stack.awaitEvent("engine-died")).toMatchObject({
      name: killed?.name,
      cause: "signal SIGKILL",
      attempt: 1,
    });
  });

  test("the engine that died comes back and is given requests", async () => {
    const died = await stack.awaitEvent("engine-died");
    await stack.awaitEvent("engine-ready", 3);
    await stack.whenAllReady();
    const back = stack.engines.find((engine) => engine.name === died["name"]);
    await eventually("the new engine has computed a prompt", async () => {
      await Promise.all([complete(), complete(), complete(), complete()]);
      return ((await back?.metric("engine_prompt_tokens_total")) ?? 0) > 0;
    });
    expect(back?.name).toBe(died["name"]);
  });

  test("an engine that dies again and again is given up, and with it everything", async () => {
    const programs = descendantsOf(stack.pid);
    const { name } = await stack.awaitEvent("engine-died");
    const latest = () => pidOf(stack.engines.find((engine) => engine.name === name));
    // One restart was spent above, two are left: whichever life it is in, it is ended.
    for (const lives of [3, 4, 5]) {
      // oxlint-disable-next-line no-await-in-loop
      await stack.awaitEvent("engine-started", lives);
      process.kill(latest(), "SIGKILL");
    }
    expect(await stack.ended()).toBe("exit code 1");
    const [failed] = stack.eventsOf("failed");
    expect(failed?.["sentence"]).toBe(
      `Engine ${String(name)} died again and again (signal SIGKILL)`,
    );
    await expectNothingLeft(stack, programs);
  });
});
