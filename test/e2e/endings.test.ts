import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { LiveProgram } from "../support/live-programs.ts";
import { descendantsOf, isAlive } from "../support/live-programs.ts";
import { RunningStack } from "./support/running-stack.ts";

let stack: RunningStack;
afterEach(() => stack?.dispose());

/** Starts a stack and lists its programs: more than the parts that the command line itself knows. */
async function startWithPrograms(): Promise<readonly LiveProgram[]> {
  stack = await RunningStack.ready("--replicas", "1");
  const programs = descendantsOf(stack.pid);
  for (const part of ["keeper.mjs", "wrangler", "workerd", "gpu-backend/main.ts"]) {
    expect(programs.map(({ commandLine }) => commandLine)).toContainEqual(
      expect.stringContaining(part),
    );
  }
  return programs;
}

async function expectNothingLeft(programs: readonly LiveProgram[]): Promise<void> {
  expect(programs.filter(({ pid }) => isAlive(pid))).toEqual([]);
  expect(await stack.listTakenPorts()).toEqual([]);
  expect(stack.listLeftovers()).toEqual([]);
}

describe("sluice up", () => {
  test("Ctrl-C in the middle of a stream stops everything that was started", async () => {
    const programs = await startWithPrograms();
    const chunks = await stack.clientOf("chat").chat.completions.create({
      model: "sluice-tiny",
      messages: [{ role: "user", content: "Tell me a very long story." }],
      stream: true,
    });
    const reading = (async () => {
      let received = 0;
      for await (const _ of chunks) {
        received += 1;
        if (received === 1) process.kill(stack.pid, "SIGINT");
      }
    })();
    // The stream is cut; how the client words that is not the point.
    await Promise.allSettled([reading]);
    expect(await stack.ended()).toBe("exit code 0");
    expect(stack.eventsOf("stopped")).toHaveLength(1);
    await expectNothingLeft(programs);
  });

  test("killing the command line outright leaves no program and no secret behind", async () => {
    const programs = await startWithPrograms();
    expect(stack.listLeftovers()).toHaveLength(1);
    expect(await stack.end("SIGKILL")).toBe("signal SIGKILL");
    await eventually("every program has ended", () => !programs.some(({ pid }) => isAlive(pid)));
    await expectNothingLeft(programs);
  });

  test("the gateway's death is the end of all, and is told", async () => {
    const programs = await startWithPrograms();
    const wrangler = programs.find(({ commandLine }) => /wrangler-dist/.test(commandLine));
    process.kill(wrangler?.pid ?? 0, "SIGKILL");
    expect(await stack.ended()).toBe("exit code 1");
    expect(stack.eventsOf("failed")).toEqual([
      expect.objectContaining({ sentence: expect.stringMatching(/^The gateway died \(.+\)$/) }),
    ]);
    await expectNothingLeft(programs);
  });

  test("an engine that cannot start is told with its own words, and nothing stays", async () => {
    stack = await RunningStack.start("--model", "/no/such/model");
    await stack.awaitEvent("failed");
    const programs = descendantsOf(stack.pid);
    expect(await stack.ended()).toBe("exit code 1");
    const [failed] = stack.eventsOf("failed");
    expect(failed?.["sentence"]).toMatch(/^Engine replica-\d died before it was ready/);
    expect(JSON.stringify(failed?.["logTail"])).toContain("/no/such/model");
    await expectNothingLeft(programs);
  });
});
