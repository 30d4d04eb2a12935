import { parentPort, workerData } from "node:worker_threads";
import { register } from "tsx/esm/api";

// Node 20 does not hand on to threads what reads TypeScript on the main thread.
register();
const { createOnnxExecutor } =
  await import("../../../../gpu-backend/engine/executor/onnx-executor.ts");
const executor = await createOnnxExecutor(workerData.options);
const { values } = await executor.run(workerData.batch);
parentPort?.postMessage({ runtime: executor.runtime, logits: values.slice() }, []);
await executor.close();
