import { expect, onTestFinished, test } from "vitest";
import { pidOf } from "../support/live-programs.ts";
import { expectNothingLeft, listPrograms } from "./support/stack-programs.ts";
import { RunningStack } from "./support/running-stack.ts";

// One listens on the port, the other one runs the Worker; wrangler outlives the death of either. Until
// it counts as a death nothing happens for a while, so they wait at the same time.
test.concurrent.each([0, 1])(
  "the death of workerd %i is found out and is the end of all",
  async (index) => {
    const stack = await RunningStack.ready("--replicas", "1");
    onTestFinished(() => stack.dispose());
    const programs = listPrograms(stack);
    const workerds = programs.filter(({ commandLine }) => /^\S*workerd /.test(commandLine));
    expect(workerds).toHaveLength(2);
    process.kill(pidOf(workerds[index]), "SIGKILL");
    expect(await stack.ended()).toBe("exit code 1");
    expect(stack.eventsOf("failed")).toEqual([
      expect.objectContaining({
        sentence: `The gateway at ${stack.gatewayUrl} no longer answers`,
      }),
    ]);
    await expectNothingLeft(stack, programs);
  },
  // Two whole stacks begin, fall silent and are wound up beside the other file of stacks.
  120_000,
);
