import { syncBuiltinESMExports } from "node:module";
import workerThreads from "node:worker_threads";

const PERMITS = 0;
/** More steps than any test has. */
const FREE = 2 ** 30;
const THREAD_URL = new URL("./held-engine-thread.mjs", import.meta.url);

/** See the declaration. */
export class EngineHold {
  #permits = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)).fill(FREE);

  /** Takes all of this process's engine threads into its hands, until the returned function is called. */
  intercept() {
    const permits = this.#permits;
    const { Worker } = workerThreads;
    workerThreads.Worker = class extends Worker {
      constructor(program, options) {
        if (!String(program).includes("engine-thread")) super(program, options);
        else {
          const held = { program: String(program), permits };
          super(THREAD_URL, { ...options, workerData: { ...options.workerData, held } });
        }
      }
    };
    syncBuiltinESMExports();
    return () => {
      workerThreads.Worker = Worker;
      syncBuiltinESMExports();
    };
  }

  hold() {
    Atomics.store(this.#permits, PERMITS, 0);
  }

  step() {
    Atomics.compareExchange(this.#permits, PERMITS, 0, 1);
    Atomics.notify(this.#permits, PERMITS);
  }

  letGo() {
    Atomics.store(this.#permits, PERMITS, FREE);
    Atomics.notify(this.#permits, PERMITS);
  }
}
