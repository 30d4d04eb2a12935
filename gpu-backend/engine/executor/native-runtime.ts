import type { Tensor } from "onnxruntime-web";
import { assert } from "../../../src/base/assert.ts";
import { multipliesExactly } from "./check-runtime.ts";
import { freeTensors } from "./free-tensors.ts";
import type { NativePackage, NativeSession } from "./native-package.ts";
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

/** What computes: the processor, or a GPU, to which tensors are copied and back at each run. */
export type NativeProvider = "cpu" | "webgpu";

const SESSION_OPTIONS = {
  graphOptimizationLevel: "all",
  // One thread an engine: whoever has more cores runs more engines. A thread that spins starves them.
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: "0" } } },
  // Each session would have an arena of its own, which grows to up to twice what its weights take.
  enableCpuMemArena: false,
  // A pattern is kept for every shape that was ever seen, and a step may have any number of rows.
  enableMemPattern: false,
  logSeverityLevel: LOG_FATAL,
};
const RUN_OPTIONS = { logSeverityLevel: LOG_FATAL };

/** A tensor over a place, good for as long as the memory has not grown. */
interface PlacedTensor {
  readonly place: TensorPlace;
  readonly buffer: WasmMemory["buffer"];
  readonly tensor: Tensor;
}

/**
 * Runs segments in onnxruntime-node, which users install themselves. Tensors are handed over where they
 * lie and outputs are written in place: for that the memory must not be shared.
 */
export class NativeRuntime implements SegmentRuntime {
  readonly #ort: NativePackage;
  readonly #provider: NativeProvider;
  readonly #own = new OwnMemory(createWasmMemory({ shared: false }));
  readonly #sessions: NativeSession[] = [];
  /** By address: a decoding batch keeps its shape for many steps. */
  readonly #tensors = new Map<number, PlacedTensor>();
  #multipliesIntegers = false;

  private constructor(ort: NativePackage, provider: NativeProvider) {
    this.#ort = ort;
    this.#provider = provider;
  }

  static async create(
    ort: NativePackage,
    provider: NativeProvider = "cpu",
  ): Promise<NativeRuntime> {
    const runtime = new NativeRuntime(ort, provider);
    runtime.#multipliesIntegers = provider === "cpu" && (await multipliesExactly(runtime));
    return runtime;
  }

  get memory(): WasmMemory {
    return this.#own.memory;
  }

  get multipliesIntegers(): boolean {
    return this.#multipliesIntegers;
  }

  allocate(byteLength: number): number {
    return this.#own.allocate(byteLength);
  }

  async load(graph: SegmentGraph): Promise<Segment> {
    const session = await this.#ort.createSession(graph.model, {
      ...SESSION_OPTIONS,
      executionProviders: [this.#provider],
    });
    this.#sessions.push(session);
    return this.#segmentOf(session, graph);
  }

  /** Holds on to a graph's names alone, and to none of its weights. */
  #segmentOf(
    session: NativeSession,
    { inputs: inputNames, outputs: outputNames }: Pick<SegmentGraph, "inputs" | "outputs">,
  ): Segment {
    // Outputs are written in place; the result is a copy of each.
    return {
      run: (inputs, outputs): Promise<void> | void => {
        const feeds = this.#tensorsAt(inputNames, inputs);
        const running = session.run(feeds, this.#tensorsAt(outputNames, outputs), RUN_OPTIONS);
        if (running instanceof Promise) return running.then(freeTensors);
        freeTensors(running);
      },
    };
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.release();
  }

  #tensorsAt(names: readonly string[], places: readonly TensorPlace[]): Record<string, Tensor> {
    assert(names.length === places.length, `places for ${names.join()} are given`);
    const tensors: Record<string, Tensor> = {};
    for (const [index, name] of names.entries()) {
      const place = places[index];
      assert(place !== undefined, `a place for ${name} is given`);
      tensors[name] = this.#tensorAt(place);
    }
    return tensors;
  }

  #tensorAt(place: TensorPlace): Tensor {
    const { buffer } = this.#own.memory;
    const known = this.#tensors.get(place.address);
    if (known !== undefined && known.buffer === buffer && isSamePlace(known.place, place)) {
      return known.tensor;
    }
    const values = tensorValues(this.#own.memory, place);
    const tensor = new this.#ort.Tensor(place.type, values, place.shape);
    this.#tensors.set(place.address, { place, buffer, tensor });
    return tensor;
  }
}

function isSamePlace(a: TensorPlace, b: TensorPlace): boolean {
  return (
    a.type === b.type &&
    a.shape.length === b.shape.length &&
    a.shape.every((size, index) => size === b.shape[index])
  );
}
