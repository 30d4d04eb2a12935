import type { ElementType } from "./onnx-writer.ts";
import type { WasmMemory } from "./wasm-memory.ts";

/** One ONNX model with its interface: names of inputs and outputs, in the order of their places. */
export interface SegmentGraph<Name extends string = string> {
  readonly model: Uint8Array;
  readonly inputs: readonly Name[];
  readonly outputs: readonly Name[];
}

/** A tensor that lies in the runtime's memory. */
export interface TensorPlace {
  readonly type: ElementType;
  /** Byte offset in the memory; a multiple of 64. */
  readonly address: number;
  readonly shape: readonly number[];
}

/** A loaded segment. */
export interface Segment {
  /**
   * Computes the outputs from the inputs, both in the graph's order and in the runtime's memory.
   * Rejects, or throws, with ONNX Runtime's message.
   */
  run(inputs: readonly TensorPlace[], outputs: readonly TensorPlace[]): Promise<void> | void;
}

/**
 * What runs segments: a wasm memory, in which our own kernels work too, and ONNX Runtime behind it.
 * The ways to call ONNX Runtime implement this.
 */
export interface SegmentRuntime {
  readonly memory: WasmMemory;
  /** Whether its products of bytes are exact, and faster than our own kernel's for many rows. */
  readonly multipliesIntegers: boolean;
  /**
   * Reserves zeroed memory, aligned to 64 bytes, until the runtime closes. Throws a `RangeError`
   * when the address space of 4 GiB is used up.
   */
  allocate(byteLength: number): number;
  /** Loads a segment; the graph's bytes may be dropped afterwards. */
  load(graph: SegmentGraph): Promise<Segment>;
  close(): Promise<void>;
}

/** Every allocation starts at a multiple of this: a cache line, and more than any vector needs. */
export const ALIGNMENT_BYTES = 64;

/** Errors come back to the caller, so ONNX Runtime need not print them as well. */
export const LOG_FATAL = 4;
