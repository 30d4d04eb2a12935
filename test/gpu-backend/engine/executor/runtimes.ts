import { hasNativePackage } from "../../../../gpu-backend/engine/executor/native-package.ts";
import type { RuntimeChoice } from "../../../../gpu-backend/engine/executor/runtime-choice.ts";

/** Every runtime that is here; CI installs onnxruntime-node for a run of its own. */
export const RUNTIMES: readonly RuntimeChoice[] = hasNativePackage() ? ["wasm", "node"] : ["wasm"];

/** Each in every precision of weights, KV being what it is by default. */
export const RUNTIMES_AND_PRECISIONS = RUNTIMES.flatMap((runtime) =>
  (["f32", "int8"] as const).map((precision) => ({ runtime, precision })),
);
