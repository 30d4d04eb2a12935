import { createRequire } from "node:module";
import type { InferenceSession, Tensor } from "onnxruntime-web";
import { assert } from "../../../src/base/assert.ts";
import { messageOf } from "../message-of.ts";
import { multipliesExactly } from "./check-runtime.ts";
import { OwnMemory } from "./own-memory.ts";
import {
  LOG_FATAL,
  type Segment,
  type SegmentGraph,
  type SegmentRuntime,
  type TensorPlace,
} from "./segment-runtime.ts";
import { tensorValues, type TensorValues } from "./tensor-values.ts";
import { createWasmMemory, type WasmMemory } from "./wasm-memory.ts";

const PACKAGE = "onnxruntime-node";

/** What we use of onnxruntime-node, whose API is that of onnxruntime-web. */
interface OrtNode {
  readonly InferenceSession: {
    create(model: Uint8Array, options: object): Promise<InferenceSession>;
  };
  readonly Tensor: new (type: string, values: TensorValues, shape: readonly number[]) => Tensor;
}

const SESSION_OPTIONS = {
  executionProviders: ["cpu"],
  graphOptimizationLevel: "all",
  // One thread an engine: whoever has more cores runs more engines. A thread that spins starves them.
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: "0" } } },
  // A pattern is kept for every shape that was ever seen, and a step may have any number of rows.
  enableMemPattern: false,
  logSeverityLevel: LOG_FATAL,
};

/**
 * Runs segments in onnxruntime-node, which users install themselves. Tensors are handed over where they
 * lie and outputs are written in place: for that the memory must not be shared.
 */
export class NativeRuntime implements SegmentRuntime {
  readonly #ort: OrtNode;
  readonly #own = new OwnMemory(createWasmMemory({ shared: false }));
  readonly #sessions: InferenceSession[] = [];
  #multipliesIntegers = false;

  private constructor(ort: OrtNode) {
    this.#ort = ort;
  }

  /** Loads the package; throws, in words for the operator, where it is missing or does not load. */
  static async create(): Promise<NativeRuntime> {
    const runtime = new NativeRuntime(loadPackage());
    runtime.#multipliesIntegers = await multipliesExactly(runtime);
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
    const session = await this.#ort.InferenceSession.create(graph.model, SESSION_OPTIONS);
    this.#sessions.push(session);
    return {
      run: async (inputs, outputs) => {
        await session.run(
          this.#tensors(graph.inputs, inputs),
          this.#tensors(graph.outputs, outputs),
          { logSeverityLevel: LOG_FATAL },
        );
      },
    };
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.release();
  }

  #tensors(names: readonly string[], places: readonly TensorPlace[]): Record<string, Tensor> {
    assert(names.length === places.length, `places for ${names.join()} are given`);
    const tensors: Record<string, Tensor> = {};
    for (const [index, name] of names.entries()) {
      const place = places[index];
      assert(place !== undefined, `a place for ${name} is given`);
      tensors[name] = new this.#ort.Tensor(
        place.type,
        tensorValues(this.#own.memory, place),
        place.shape,
      );
    }
    return tensors;
  }
}

/** Whether the package can be found, from here or through NODE_PATH. */
export function hasNativePackage(): boolean {
  try {
    createRequire(import.meta.url).resolve(PACKAGE);
    return true;
  } catch {
    return false;
  }
}

function loadPackage(): OrtNode {
  if (!hasNativePackage()) {
    throw new Error(
      `${PACKAGE} is not installed; ONNXRUNTIME_NODE_INSTALL=skip npm install --no-save ${PACKAGE}@1.30.0`,
    );
  }
  let loaded: unknown;
  try {
    loaded = createRequire(import.meta.url)(PACKAGE);
  } catch (error) {
    throw new Error(`${PACKAGE} does not load here: ${messageOf(error)}`, { cause: error });
  }
  assert(isOrtNode(loaded), `${PACKAGE} has sessions and tensors`);
  return loaded;
}

function isOrtNode(loaded: unknown): loaded is OrtNode {
  return (
    typeof loaded === "object" &&
    loaded !== null &&
    "InferenceSession" in loaded &&
    "Tensor" in loaded
  );
}
