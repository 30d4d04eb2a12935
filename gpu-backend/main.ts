import { messageOf } from "./engine/message-of.ts";
import { createLog } from "./log.ts";
import { runEngine, type RunningEngine } from "./run-engine.ts";
import { parseSettings, type Settings } from "./settings.ts";

const EXIT_OK = 0;
const EXIT_FAILURE = 1;
const EXIT_WRONG_USE = 2;

const log = createLog((line) => process.stdout.write(line));
// Whoever read the log is gone, which is no reason to drop the requests that run.
process.stdout.on("error", () => {});

const parsed = parseSettings(process.argv.slice(2), process.env);
switch (parsed.kind) {
  case "help":
    process.stdout.write(parsed.text);
    break;
  case "invalid":
    process.stderr.write(parsed.problems.map((problem) => `${problem}\n`).join(""));
    process.exitCode = EXIT_WRONG_USE;
    break;
  case "settings":
    await serve(parsed.settings);
    break;
}

async function serve(settings: Settings): Promise<void> {
  let running: RunningEngine | undefined;
  stopWhenAsked(settings, () => running);
  try {
    running = await runEngine(settings, log);
  } catch (error) {
    log("error", "start-failed", { message: messageOf(error) });
    process.exit(EXIT_FAILURE);
  }
  const reason = await running.broken;
  log("error", "engine-broken", { reason });
  await running.stop();
  process.exit(EXIT_FAILURE);
}

/** The first request to stop drains; the second one, or one that comes while loading, is at once. */
function stopWhenAsked(settings: Settings, running: () => RunningEngine | undefined): void {
  let isStopping = false;
  const stop = (cause: string): void => {
    const engine = running();
    if (engine === undefined) process.exit(EXIT_OK);
    if (isStopping) {
      void engine.halt().then(() => process.exit(EXIT_FAILURE));
      return;
    }
    isStopping = true;
    log("info", "draining", { cause, drainMs: settings.drainMs });
    void engine.stop().then(() => {
      log("info", "stopped");
      process.exit(EXIT_OK);
    });
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  if (!settings.exitWithStdin) return;
  process.stdin.once("end", () => stop("stdin ended"));
  process.stdin.once("error", () => stop("stdin broke"));
  process.stdin.resume();
}
