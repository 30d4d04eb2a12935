// The program of an engine thread in the hands of an `EngineHold`: behind each step that brought a token it
// waits until it may take another one.
import { parentPort, workerData } from "node:worker_threads";

const { program, permits } = workerData.held;
const post = parentPort.postMessage.bind(parentPort);
parentPort.postMessage = (message) => {
  post(message);
  if (message.kind !== "events" || !message.events.some(({ kind }) => kind === "token")) return;
  for (;;) {
    const left = Atomics.load(permits, 0);
    if (left === 0) Atomics.wait(permits, 0, 0);
    else if (Atomics.compareExchange(permits, 0, left, left - 1) === left) return;
  }
};
await import(program);
