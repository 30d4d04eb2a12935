import * as ort from "onnxruntime-web";
import { assert } from "../../../src/base/assert.ts";
import {
  ALIGNMENT_BYTES,
  LOG_FATAL,
  type Segment,
  type SegmentGraph,
  type SegmentRuntime,
  type TensorPlace,
} from "./segment-runtime.ts";
import { createWasmMemory, type WasmMemory } from "./wasm-memory.ts";

const PAGE_BYTES = 65_536;

const SESSION_OPTIONS: ort.InferenceSession.SessionOptions = {
  executionProviders: ["wasm"],
  graphOptimizationLevel: "all",
  // A pattern is kept for every shape that was ever seen, and a step may have any number of rows.
  enableMemPattern: false,
  logSeverityLevel: LOG_FATAL,
};

/**
 * Runs segments through the public API of onnxruntime-web, which copies every tensor into its heap
 * and out again. The memory is our own.
 */
export class PublicRuntime implements SegmentRuntime {
  readonly memory = createWasmMemory();
  readonly #sessions: ort.InferenceSession[] = [];
  #usedBytes = 0;

  private constructor() {}

  /** Prepares ONNX Runtime for one thread: a second one spins, and starves whoever shares the core. */
  static create(): PublicRuntime {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.proxy = false;
    return new PublicRuntime();
  }

  allocate(byteLength: number): number {
    const address = this.#usedBytes;
    const end = Math.ceil((address + byteLength) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    const missingPages = Math.ceil((end - this.memory.buffer.byteLength) / PAGE_BYTES);
    if (missingPages > 0) this.memory.grow(missingPages);
    this.#usedBytes = end;
    return address;
  }

  async load(graph: SegmentGraph): Promise<Segment> {
    const session = await ort.InferenceSession.create(graph.model, SESSION_OPTIONS);
    this.#sessions.push(session);
    return {
      run: async (inputs, outputs) => {
        const feeds: Record<string, ort.Tensor> = {};
        for (const [index, name] of graph.inputs.entries()) {
          feeds[name] = toTensor(this.memory, placeAt(inputs, index));
        }
        const fetches = await session.run(feeds, { logSeverityLevel: LOG_FATAL });
        for (const [index, name] of graph.outputs.entries()) {
          const place = placeAt(outputs, index);
          const result = fetches[name]?.data;
          assert(result instanceof Float32Array, `output ${name} is f32`);
          floatsAt(this.memory, place).set(result);
        }
      },
    };
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.release();
  }
}

function placeAt(places: readonly TensorPlace[], index: number): TensorPlace {
  const place = places[index];
  assert(place !== undefined, `a place for tensor ${index} is given`);
  return place;
}

function toTensor(memory: WasmMemory, place: TensorPlace): ort.Tensor {
  if (place.type === "float32") {
    return new ort.Tensor("float32", floatsAt(memory, place), place.shape);
  }
  assert(place.type === "int32", `segments take f32 and i32, not ${place.type}`);
  const values = new Int32Array(memory.buffer, place.address, elementCount(place.shape));
  return new ort.Tensor("int32", values, place.shape);
}

function floatsAt(memory: WasmMemory, place: TensorPlace): Float32Array {
  return new Float32Array(memory.buffer, place.address, elementCount(place.shape));
}

function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
