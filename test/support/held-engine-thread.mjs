// The program of an engine thread in the hands of an `EngineHold`: behind each step that brought a token it
// waits until it may take another one.
import { parentPort, workerData } from "node:worker_threads";

const { program, permits } = workerData.held;
const post = parentPort.postMessage.bind(parentPort);

/** Whether another step was permitted; then that permit is used up. */
function takePermit() {
  for (;;) {
    const left = Atomics.load(permits, 0);
    if (left === 0) return false;
    if (Atomics.compareExchange(permits, 0, left, left - 1) === left) return true;
  }
}

parentPort.postMessage = (message) => {
  const isToken = message.kind === "events" && message.events.some(({ kind }) => kind === "token");
  // Before anybody hears of this step: who holds the thread upon it means the next one.
  const goesOn = !isToken || takePermit();
  post(message);
  if (goesOn) return;
  while (!takePermit()) Atomics.wait(permits, 0, 0);
};
await import(program);
