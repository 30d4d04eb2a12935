/* oxlint-disable unicorn/require-post-message-target-origin -- a thread has no origin */
import { parentPort, workerData } from "node:worker_threads";

// A thread that speaks the engine thread's protocol up to its first request, and then goes wrong
// in the way that the model's directory names.
const fault = workerData.options.modelDirectory;
const steps = new Int32Array(workerData.watchMemory);
const snapshot = {
  submissions: 0,
  queuedRequests: 0,
  queuedUncachedTokens: 0,
  queuedAttendedPairs: 0,
  waitingKvTokens: 0,
};

if (fault === "load-fails") throw new Error("no such weights");
parentPort.postMessage({ kind: "loaded", facts: {}, snapshot });
parentPort.on("message", (command) => {
  if (command.kind !== "submit") return;
  const { id } = command.request;
  switch (fault) {
    case "exits":
      process.exit(3);
      break;
    case "throws":
      throw new Error("a bug");
    case "breaks":
      parentPort.postMessage({ kind: "broken", message: "the runtime is gone" });
      break;
    case "hangs":
      Atomics.add(steps, 0, 1);
      for (;;);
    case "talks-on": {
      const told = ["started", "prompt-logprobs", "embedded", "token"].map((kind) => ({
        kind,
        id,
      }));
      const finished = { kind: "finished", id, reason: "stop", promptTokens: 1, outputTokens: 0 };
      const events = [...told, finished, { kind: "token", id, tokenId: 1 }, finished];
      const seen = { ...snapshot, submissions: 1 };
      parentPort.postMessage({ kind: "events", events, atMs: 0, snapshot: seen });
      break;
    }
    case "is-deaf":
      break;
  }
});
