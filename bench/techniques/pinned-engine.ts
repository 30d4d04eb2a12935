import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import * as z from "zod";

const PROGRAM = fileURLToPath(new URL("../../gpu-backend/start.mjs", import.meta.url));

const ReadyLine = z.object({ event: z.literal("ready"), url: z.url() });

/** An engine as a program of its own, on one core: what it shares with others is that core alone. */
export interface PinnedEngine {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts an engine on a core of this machine, and waits until it serves. */
export async function startPinnedEngine(
  core: number,
  flags: readonly string[],
  secret: string,
): Promise<PinnedEngine> {
  const program = [process.execPath, PROGRAM, "--port", "0", "--drain-ms", "0", ...flags];
  const child = spawn("taskset", ["-c", String(core), ...program, "--exit-with-stdin"], {
    env: { ...process.env, SLUICE_REPLICA_SECRET: secret },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout })) {
    const ready = line.startsWith("{") ? ReadyLine.safeParse(JSON.parse(line)) : undefined;
    if (ready?.success !== true) continue;
    child.stdout.resume();
    return {
      url: ready.data.url,
      stop: async () => {
        child.kill("SIGTERM");
        await exited;
      },
    };
  }
  throw new Error(`An engine with ${flags.join(" ")} did not start`);
}
