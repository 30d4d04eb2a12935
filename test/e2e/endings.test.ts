import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { findLocalRun, RUN_FILE } from "../../cli/run-file.ts";
import type { SseFrame } from "../../src/protocol/sse.ts";
import { eventually } from "../support/eventually.ts";
import { takeFreePorts } from "../support/free-ports.ts";
import type { LiveProgram } from "../support/live-programs.ts";
import { descendantsOf, isAlive, isStopped, pidOf } from "../support/live-programs.ts";
import { RunningStack } from "./support/running-stack.ts";
import { expectNothingLeft, listPrograms } from "./support/stack-programs.ts";

const STREAM_COUNT = 3;
/** As many as the tenant may have, and more than the model, so that some wait however quick the machine is. */
const CROWD = 60;
const RUNNING_MAX = 20;
const SAME_WISH_PASSED_MS = 700;

let stack: RunningStack;
afterEach(() => stack?.dispose());

async function startWithPrograms(): Promise<readonly LiveProgram[]> {
  stack = await RunningStack.ready("--replicas", "1");
  return listPrograms(stack);
}

/** One engine, of whose model only so many requests run at once. */
async function startWithLimit(): Promise<RunningStack> {
  const folder = mkdtempSync(join(tmpdir(), "endings-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "limited.yaml");
  const text = readFileSync(new URL("../../sluice.local.yaml", import.meta.url), "utf8");
  const model = "{ context: 2048, pool: local";
  expect(text).toContain(model);
  writeFileSync(file, text.replace(model, `${model}, max_running: ${RUNNING_MAX}`));
  return RunningStack.readyWith(pathToFileURL(file), await takeFreePorts(2), "--replicas", "1");
}

/** Reads a streamed answer to its end; tells when its first frame is there. */
async function readStream(onFirst: () => void): Promise<readonly SseFrame[]> {
  const frames: SseFrame[] = [];
  for await (const frame of stack.streamStory("chat")) {
    frames.push(frame);
    if (frames.length === 1) onFirst();
  }
  return frames;
}

/** A stream has one end, and nothing after it: `[DONE]` or an error. */
function isWhole(frames: readonly SseFrame[]): boolean {
  const ends = frames.filter(({ data, event }) => data === "[DONE]" || event === "error");
  return ends.length === 1 && ends[0] === frames.at(-1);
}

describe("sluice up", () => {
  test("Ctrl-C in the middle of streams lets each come to its end, then stops everything", async () => {
    const programs = await startWithPrograms();
    let begun = 0;
    const onFirst = () => {
      begun += 1;
      if (begun === STREAM_COUNT) process.kill(stack.pid, "SIGINT");
    };
    const streams = Array.from({ length: STREAM_COUNT }, () => readStream(onFirst));
    for (const frames of await Promise.all(streams)) expect(isWhole(frames)).toBe(true);
    expect(await stack.ended()).toBe("exit code 0");
    expect(stack.eventsOf("stopped")).toHaveLength(1);
    expect(readdirSync(join(stack.folderPath, ".sluice"))).toEqual([]);
    await expectNothingLeft(stack, programs);
  });

  test("Ctrl-C refuses those who wait, for whom nobody will be there any more", async () => {
    stack = await startWithLimit();
    const enginePid = pidOf(stack.engines[0]);
    onTestFinished(() => {
      if (isAlive(enginePid)) process.kill(enginePid, "SIGCONT");
    });
    let begun = 0;
    const read = async (): Promise<"whole" | "cut" | "refused"> => {
      const frames: SseFrame[] = [];
      // Whoever has waited for two seconds has a head by then, and is refused in the stream.
      let said = "";
      const story = stack.streamStory("bulk", { max_tokens: 800, ignore_eos: true });
      try {
        for await (const frame of story) {
          frames.push(frame);
          if (frame.event === "error") said = frame.data;
          if (frames.length === 2 && (begun += 1) === STREAM_COUNT) {
            // It serves nobody until the first of those who wait has heard, however busy the machine is.
            process.kill(enginePid, "SIGSTOP");
            process.kill(stack.pid, "SIGINT");
          }
        }
      } catch (error) {
        said = String(error);
      }
      // An answer that was cut off before its head is no refusal.
      if (!said.includes("server_is_overloaded")) return isWhole(frames) ? "whole" : "cut";
      process.kill(enginePid, "SIGCONT");
      return isWhole(frames) || frames.length === 0 ? "refused" : "cut";
    };
    const ends = await Promise.all(Array.from({ length: CROWD }, read));
    expect(ends.filter((end) => end === "cut")).toEqual([]);
    expect(ends).toContain("refused");
    expect(ends).toContain("whole");
    expect(await stack.ended()).toBe("exit code 0");
  });

  test("a second Ctrl-C does not wait for an engine that cannot finish", async () => {
    const programs = await startWithPrograms();
    const enginePid = pidOf(stack.engines[0]);
    const reading = Promise.allSettled([readStream(() => process.kill(enginePid, "SIGSTOP"))]);
    await eventually("the stream has begun", () => isStopped(enginePid));
    process.kill(stack.pid, "SIGINT");
    // One that follows more closely would count as the same Ctrl-C.
    await sleep(SAME_WISH_PASSED_MS);
    expect(isAlive(stack.pid)).toBe(true);
    process.kill(stack.pid, "SIGINT");
    // Far less than the engine is given after the first one.
    await eventually("the command line has ended", () => !isAlive(stack.pid), 5000);
    await reading;
    await expectNothingLeft(stack, programs);
  });

  test("killing the command line outright leaves no program and no secret behind", async () => {
    const programs = await startWithPrograms();
    expect(stack.listLeftovers()).toHaveLength(1);
    expect(findLocalRun(stack.folderPath)).toMatchObject({ url: stack.gatewayUrl });
    expect(await stack.end("SIGKILL")).toBe("signal SIGKILL");
    await eventually("every program has ended", () => !programs.some(({ pid }) => isAlive(pid)));
    // What is left of the run file is a link to nothing.
    expect(existsSync(join(stack.folderPath, RUN_FILE))).toBe(false);
    await expectNothingLeft(stack, programs);
  });

  test("the gateway's death is the end of all, and is told", async () => {
    const programs = await startWithPrograms();
    const wrangler = programs.find(({ commandLine }) => /wrangler-dist/.test(commandLine));
    process.kill(pidOf(wrangler), "SIGKILL");
    expect(await stack.ended()).toBe("exit code 1");
    expect(stack.eventsOf("failed")).toEqual([
      expect.objectContaining({ sentence: expect.stringMatching(/^The gateway died \(.+\)$/) }),
    ]);
    await expectNothingLeft(stack, programs);
  });

  test("an engine that cannot start is told with its own words, and nothing stays", async () => {
    stack = await RunningStack.start("--model", "/no/such/model");
    await stack.awaitEvent("failed");
    const programs = descendantsOf(stack.pid);
    expect(await stack.ended()).toBe("exit code 1");
    const [failed] = stack.eventsOf("failed");
    expect(failed?.["sentence"]).toMatch(/^Engine replica-\d died before it was ready/);
    expect(JSON.stringify(failed?.["logTail"])).toContain("/no/such/model");
    await expectNothingLeft(stack, programs);
  });
});
