import { hasNativePackage } from "../../../../gpu-backend/engine/executor/native-package.ts";
import type { RuntimeChoice } from "../../../../gpu-backend/engine/executor/runtime-choice.ts";

/** Every runtime that is here, in every precision; CI installs onnxruntime-node for a run of its own. */
const RUNTIMES: readonly RuntimeChoice[] = hasNativePackage() ? ["wasm", "node"] : ["wasm"];

export const RUNTIMES_AND_PRECISIONS = RUNTIMES.flatMap((runtime) =>
  (["f32", "int8"] as const).map((precision) => ({ runtime, precision })),
);
