// Loaded before the engine's program: at SIGUSR2 its engine thread ends, as if it had crashed.
import { syncBuiltinESMExports } from "node:module";
import workerThreads, { Worker } from "node:worker_threads";

workerThreads.Worker = class extends Worker {
  constructor(program, options) {
    super(program, options);
    if (!String(program).includes("engine-thread")) return;
    process.once("SIGUSR2", () => void this.terminate());
  }
};
syncBuiltinESMExports();
