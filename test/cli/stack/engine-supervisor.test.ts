import { expect, test } from "vitest";
import { EngineSupervisor } from "../../../cli/stack/engine-supervisor.ts";
import { StackFailure } from "../../../cli/stack/stack-failure.ts";

const PLAN = {
  name: "replica-1",
  poolId: "local",
  endpointUrl: "http://127.0.0.1:9101",
  host: "127.0.0.1",
  port: 9101,
  upstreamModel: "tiny",
};

/** Supervises a program that writes one line and ends, in place of an engine. */
async function failureAfter(line: string): Promise<StackFailure> {
  const script = `console.log(${JSON.stringify(line)}); process.exitCode = 1;`;
  const engine = new EngineSupervisor({
    plan: PLAN,
    portNeed: {
      host: PLAN.host,
      port: PLAN.port,
      needer: "engine replica-1",
      remedy: "change the URL at sluice.yaml:7",
      hostRemedy: "change the URL at sluice.yaml:7",
    },
    childPlan: {
      command: [process.execPath, "-e", script],
      folder: import.meta.dirname,
      environment: process.env,
    },
    report: () => undefined,
    onLine: () => undefined,
  });
  try {
    await engine.run();
  } catch (error) {
    if (error instanceof StackFailure) return error;
    throw error;
  }
  throw new Error("expected the engine to be given up");
}

test("an engine whose port was taken meanwhile is told by the line of the file, not by its own flag", async () => {
  const message = "Port 9101 on 127.0.0.1 is taken: choose another one with --port";
  const failure = await failureAfter(JSON.stringify({ event: "start-failed", message }));
  expect(failure.message).toBe(
    "Port 9101 on 127.0.0.1, which engine replica-1 needs, is taken by another program: change the URL at sluice.yaml:7",
  );
  expect(failure.logTail).toEqual([]);
});

test("an engine that dies of anything else before it is ready is told with its last words", async () => {
  const failure = await failureAfter("no model here");
  expect(failure.message).toBe("Engine replica-1 died before it was ready (exit code 1)");
  expect(failure.logTail).toEqual(["no model here"]);
});
