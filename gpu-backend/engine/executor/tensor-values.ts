import { assert } from "../../../src/base/assert.ts";
import type { TensorPlace } from "./segment-runtime.ts";
import type { WasmMemory } from "./wasm-memory.ts";

/** Elements of a tensor in memory, of the types that segments take and yield. */
export type TensorValues = Float32Array | Int32Array | Uint8Array;

/** A view of a tensor's elements where they lie, good until the memory grows. */
export function tensorValues(
  memory: WasmMemory,
  { type, address, shape }: TensorPlace,
): TensorValues {
  const { buffer } = memory;
  const count = shape.reduce((product, size) => product * size, 1);
  if (type === "float32") return new Float32Array(buffer, address, count);
  if (type === "int32") return new Int32Array(buffer, address, count);
  assert(type === "uint8", `tensors are of f32, i32 or u8, not ${type}`);
  return new Uint8Array(buffer, address, count);
}
