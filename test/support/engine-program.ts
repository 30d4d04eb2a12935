import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { eventually } from "./eventually.ts";
import type { LogLine } from "./running-engine.ts";

const MAIN = fileURLToPath(new URL("../../gpu-backend/start.mjs", import.meta.url));

/** An engine as a program of its own. */
export interface EngineProgram {
  readonly child: ChildProcess;
  readonly log: readonly LogLine[];
  readonly errorText: () => string;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | string | null>;
  /** Waits for the line that says where it serves. */
  ready(): Promise<string>;
}

/** Starts `gpu-backend/start.mjs` behind these modules; whoever starts it ends it. */
export function spawnEngine(
  flags: readonly string[],
  secret?: string,
  ...preloads: readonly URL[]
): EngineProgram {
  const imports = preloads.flatMap(({ href }) => ["--import", href]);
  const child = spawn(process.execPath, [...imports, MAIN, ...flags], {
    env: { ...process.env, SLUICE_REPLICA_SECRET: secret },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const log: LogLine[] = [];
  let pending = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const lines = (pending + text).split("\n");
    pending = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("{")) log.push(JSON.parse(line));
  });
  let errorText = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errorText += text));
  const ended = new Promise<number | string | null>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? signal));
  });
  const readyLine = () => log.find((line) => line["event"] === "ready");
  return {
    child,
    log,
    errorText: () => errorText,
    ended,
    ready: async () => {
      await eventually(
        `the engine is ready (it said: ${errorText})`,
        () => readyLine() !== undefined || child.exitCode !== null,
        60_000,
      );
      const url = readyLine()?.["url"];
      if (typeof url !== "string") throw new Error(`The engine ended: ${JSON.stringify(log)}`);
      return url;
    },
  };
}
