import * as ort from "onnxruntime-web";
import { assert } from "../../../src/base/assert.ts";
import { OwnMemory } from "./own-memory.ts";
import {
  LOG_FATAL,
  type Segment,
  type SegmentGraph,
  type SegmentRuntime,
  type TensorPlace,
} from "./segment-runtime.ts";
import { tensorValues } from "./tensor-values.ts";
import { createWasmMemory, type WasmMemory } from "./wasm-memory.ts";

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
  readonly multipliesIntegers = false;
  readonly #own = new OwnMemory(createWasmMemory());
  readonly #sessions: ort.InferenceSession[] = [];

  private constructor() {}

  /** Prepares ONNX Runtime for one thread: a second one spins, and starves whoever shares the core. */
  static create(): PublicRuntime {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.proxy = false;
    return new PublicRuntime();
  }

  get memory(): WasmMemory {
    return this.#own.memory;
  }

  allocate(byteLength: number): number {
    return this.#own.allocate(byteLength);
  }

  async load(graph: SegmentGraph): Promise<Segment> {
    const session = await ort.InferenceSession.create(graph.model, SESSION_OPTIONS);
    this.#sessions.push(session);
    return this.#segmentOf(session, graph);
  }

  /** Holds on to a graph's names alone, and to none of its weights. */
  #segmentOf(
    session: ort.InferenceSession,
    { inputs: inputNames, outputs: outputNames }: Pick<SegmentGraph, "inputs" | "outputs">,
  ): Segment {
    return {
      run: async (inputs, outputs) => {
        const feeds: Record<string, ort.Tensor> = {};
        for (const [index, name] of inputNames.entries()) {
          feeds[name] = toTensor(this.memory, placeAt(inputs, index));
        }
        const fetches = await session.run(feeds, { logSeverityLevel: LOG_FATAL });
        for (const [index, name] of outputNames.entries()) {
          const place = placeAt(outputs, index);
          const result = fetches[name]?.data;
          assert(
            result instanceof Float32Array || result instanceof Int32Array,
            `output ${name} is f32 or i32`,
          );
          tensorValues(this.memory, place).set(result);
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
  const values = tensorValues(memory, place);
  if (values instanceof Float32Array) return new ort.Tensor("float32", values, place.shape);
  if (values instanceof Int32Array) return new ort.Tensor("int32", values, place.shape);
  return new ort.Tensor("uint8", values, place.shape);
}
