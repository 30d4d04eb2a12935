import { messageOf } from "./engine/message-of.ts";
import { KvNeighbours } from "./kv-peers/kv-neighbours.ts";
import { createLog, type Log } from "./log.ts";
import { parseEngines } from "./parse-engines.ts";
import { runEngine, type RunningEngine } from "./run-engine.ts";
import type { Settings } from "./settings.ts";

const EXIT_OK = 0;
const EXIT_FAILURE = 1;
const EXIT_WRONG_USE = 2;

const log = createLog((line) => process.stdout.write(line));
// Whoever read the log is gone, which is no reason to drop the requests that run.
process.stdout.on("error", () => {});

const parsed = parseEngines(process.argv.slice(2), process.env);
switch (parsed.kind) {
  case "help":
    process.stdout.write(parsed.text);
    break;
  case "invalid":
    process.stderr.write(parsed.problems.map((problem) => `${problem}\n`).join(""));
    process.exitCode = EXIT_WRONG_USE;
    break;
  case "engines":
    await serve(parsed.engines);
    break;
}

/** Runs all of them until they are asked to stop, or one has broken, which takes the others along. */
async function serve(engines: readonly Settings[]): Promise<void> {
  let running: readonly RunningEngine[] | undefined;
  stopWhenAsked(engines, () => running);
  const neighbours = new KvNeighbours();
  try {
    running = await Promise.all(
      engines.map((settings) => runEngine(settings, logOf(settings, engines), neighbours)),
    );
  } catch (error) {
    log("error", "start-failed", { message: messageOf(error) });
    process.exit(EXIT_FAILURE);
  }
  const { reason, url } = await Promise.race(running.map(whenBroken));
  log("error", "engine-broken", { reason, url });
  await Promise.all(running.map((engine) => engine.stop()));
  process.exit(EXIT_FAILURE);
}

async function whenBroken({
  broken,
  url,
}: RunningEngine): Promise<{ reason: string; url: string }> {
  return { reason: await broken, url };
}

/** Where there are several engines, each line tells of which it is. */
function logOf({ port }: Settings, engines: readonly Settings[]): Log {
  if (engines.length === 1) return log;
  return (level, event, fields) => log(level, event, { port, ...fields });
}

/** The first request to stop drains; the second one, or one that comes while loading, is at once. */
function stopWhenAsked(
  [first]: readonly Settings[],
  running: () => readonly RunningEngine[] | undefined,
): void {
  let isStopping = false;
  const stop = (cause: string): void => {
    const engines = running();
    if (engines === undefined) process.exit(EXIT_OK);
    if (isStopping) {
      const halted = Promise.all(engines.map((engine) => engine.halt()));
      void halted.then(() => process.exit(EXIT_FAILURE));
      return;
    }
    isStopping = true;
    log("info", "draining", { cause, drainMs: first?.drainMs });
    void Promise.all(engines.map((engine) => engine.stop())).then(() => {
      log("info", "stopped");
      process.exit(EXIT_OK);
    });
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  if (first?.exitWithStdin !== true) return;
  process.stdin.once("end", () => stop("stdin ended"));
  process.stdin.once("error", () => stop("stdin broke"));
  process.stdin.resume();
}
