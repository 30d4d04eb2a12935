// Stands between `sluice up` and wrangler, which would outlive a parent that is killed outright:
// it runs the command it is given and ends it as soon as its own stdin does.
//
// Usage: node keeper.mjs RUN_FOLDER COMMAND [ARGS...]
//
// It must lead a group of its own, since ending the command means ending that group. RUN_FOLDER is
// removed only when the parent has gone without doing so; it holds the secrets of the run.
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";

const STOP_GRACE_MS = 3000;

const [runFolder, command, ...args] = process.argv.slice(2);
if (runFolder === undefined || command === undefined) {
  console.error("Usage: node keeper.mjs RUN_FOLDER COMMAND [ARGS...]");
  process.exit(2);
}

let isOrphaned = false;
const child = spawn(command, args, { stdio: ["ignore", "inherit", "inherit"] });

function stop() {
  child.kill("SIGTERM");
  setTimeout(endGroup, STOP_GRACE_MS).unref();
}

/** Ends whatever is left of the group, this very process included. */
function endGroup() {
  if (isOrphaned) rmSync(runFolder, { recursive: true, force: true });
  process.kill(-process.pid, "SIGKILL");
}

child.on("error", (error) => {
  console.error(`Cannot start ${command}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code) => {
  // While the parent lives it ends the group itself, and wants to know how the command ended.
  if (isOrphaned) endGroup();
  process.exit(code ?? 1);
});

process.on("SIGTERM", stop);
process.on("SIGINT", stop);
process.stdin.resume();
process.stdin.on("close", () => {
  isOrphaned = true;
  stop();
});
