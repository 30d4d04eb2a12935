import { assert } from "../../../src/base/assert.ts";
import { ELEMENT_BYTES, ELEMENT_TYPES } from "./onnx-writer.ts";
import {
  acquireOrtModule,
  type OrtExports,
  type OrtModule,
  releaseOrtModule,
} from "./ort-module.ts";
import {
  ALIGNMENT_BYTES,
  LOG_FATAL,
  type Segment,
  type SegmentGraph,
  type SegmentRuntime,
  type TensorPlace,
} from "./segment-runtime.ts";
import type { WasmMemory } from "./wasm-memory.ts";

const ADDRESS_SPACE_BYTES = 2 ** 32;
const POINTER_BYTES = 4;
const ALL_OPTIMIZATIONS = 99;
const SEQUENTIAL = 0;
/** Tensors lie in the heap, not on a device. */
const CPU = 1;
const DIMENSIONS_MAX = 4;

/** A tensor handle, good for as long as the place keeps its shape. */
interface TensorHandle {
  readonly shape: readonly number[];
  readonly handle: number;
}

/** What a call of a session needs in the heap: names, and room for handles. */
interface CallFrame {
  readonly inputNames: number;
  readonly inputs: number;
  readonly outputNames: number;
  readonly outputs: number;
}

/**
 * Runs segments through the C exports of onnxruntime-web's wasm build, in whose heap everything
 * lies: tensors are handed over by address, and outputs are written where we want them.
 *
 * The exports are undocumented, so `checkRuntime` must have passed before a model is trusted to it.
 */
export class DirectRuntime implements SegmentRuntime {
  readonly memory: WasmMemory;
  readonly multipliesIntegers = false;
  readonly #module: OrtModule;
  readonly #ort: OrtExports;
  readonly #runOptions: number;
  /** Room for two pointers, and for the dimensions of a tensor that is being made. */
  readonly #scratch: number;
  readonly #sessions: number[] = [];
  readonly #allocations: number[] = [];
  /** By address. A place always has one type, so its shape alone tells whether a handle fits. */
  readonly #tensors = new Map<number, TensorHandle>();
  /** True once the module trapped: nothing in it can be relied on from then on. */
  #broken = false;

  private constructor(ortModule: OrtModule) {
    this.#module = ortModule;
    this.#ort = ortModule.ort;
    this.memory = ortModule.memory;
    this.#scratch = this.allocate(DIMENSIONS_MAX * POINTER_BYTES);
    this.#runOptions = this.#exist(this.#ort.createRunOptions(LOG_FATAL, 0, false, 0));
  }

  /** Takes a heap of ONNX Runtime's. Throws if the build is not as expected. */
  static async create(): Promise<DirectRuntime> {
    return new DirectRuntime(await acquireOrtModule());
  }

  allocate(byteLength: number): number {
    const address = this.#reserve(byteLength + ALIGNMENT_BYTES);
    this.#allocations.push(address);
    const aligned = Math.ceil(address / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    this.#bytes(aligned, byteLength).fill(0);
    return aligned;
  }

  async load(graph: SegmentGraph): Promise<Segment> {
    const session = await this.#createSession(graph.model);
    this.#sessions.push(session);
    return this.#segmentOf(session, graph);
  }

  /** Takes of a graph only its names: a segment that held on to the rest would hold the weights once more. */
  #segmentOf(session: number, names: Pick<SegmentGraph, "inputs" | "outputs">): Segment {
    const { inputs: inputNames, outputs: outputNames } = names;
    const frame: CallFrame = {
      inputNames: this.#namesOf(inputNames),
      inputs: this.allocate(inputNames.length * POINTER_BYTES),
      outputNames: this.#namesOf(outputNames),
      outputs: this.allocate(outputNames.length * POINTER_BYTES),
    };
    const [inputCount, outputCount] = [inputNames.length, outputNames.length];
    return {
      run: (inputs, outputs) => {
        assert(
          inputs.length === inputCount && outputs.length === outputCount,
          `a segment with ${inputCount} inputs and ${outputCount} outputs got a place for each`,
        );
        return this.#run(session, frame, inputs, outputs);
      },
    };
  }

  async close(): Promise<void> {
    if (this.#broken) return;
    for (const { handle } of this.#tensors.values()) this.#ort.releaseTensor(handle);
    for (const session of this.#sessions) this.#ort.releaseSession(session);
    this.#ort.releaseRunOptions(this.#runOptions);
    for (const address of this.#allocations) this.#ort.free(address);
    releaseOrtModule(this.#module);
  }

  #run(
    session: number,
    frame: CallFrame,
    inputs: readonly TensorPlace[],
    outputs: readonly TensorPlace[],
  ): void {
    this.#setPointers(
      frame.inputs,
      inputs.map((place) => this.#tensorAt(place)),
    );
    this.#setPointers(
      frame.outputs,
      outputs.map((place) => this.#tensorAt(place)),
    );
    const status = this.#untrapped(() =>
      this.#ort.run(
        session,
        frame.inputNames,
        frame.inputs,
        inputs.length,
        frame.outputNames,
        outputs.length,
        frame.outputs,
        this.#runOptions,
      ),
    );
    assert(typeof status === "number", "this build runs synchronously");
    if (status !== 0) throw this.#lastError();
  }

  /** Notes a trap: errors are statuses, so whatever is thrown left the module in an unknown state. */
  #untrapped<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      this.#broken = true;
      throw error;
    }
  }

  async #createSession(model: Uint8Array): Promise<number> {
    const ort = this.#ort;
    const options = this.#exist(
      // No memory pattern: one is kept for every shape ever seen, and a step may have any.
      ort.createSessionOptions(
        ALL_OPTIMIZATIONS,
        true,
        false,
        SEQUENTIAL,
        false,
        0,
        0,
        LOG_FATAL,
        0,
        0,
      ),
    );
    const address = this.#reserve(model.byteLength);
    try {
      this.#bytes(address, model.byteLength).set(model);
      const session = this.#untrapped(() => ort.createSession(address, model.byteLength, options));
      return this.#exist(await session);
    } finally {
      ort.free(address);
      ort.releaseSessionOptions(options);
    }
  }

  #reserve(byteLength: number): number {
    // A size of 33 bits would lose its highest on the way into wasm.
    const address = byteLength < ADDRESS_SPACE_BYTES ? this.#ort.allocate(byteLength) : 0;
    if (address === 0) throw new RangeError(`No ${byteLength} bytes are left in the wasm heap`);
    return address;
  }

  /** Keeps one handle for each place, since a decoding batch keeps its shape for many steps. */
  #tensorAt(place: TensorPlace): number {
    const { type, address, shape } = place;
    const known = this.#tensors.get(address);
    if (known !== undefined) {
      if (isSameShape(known.shape, shape)) return known.handle;
      this.#ort.releaseTensor(known.handle);
      this.#tensors.delete(address);
    }
    assert(shape.length <= DIMENSIONS_MAX, `tensors have at most ${DIMENSIONS_MAX} dimensions`);
    const bytes = shape.reduce((product, size) => product * size, ELEMENT_BYTES[type]);
    this.#setPointers(this.#scratch, shape);
    const handle = this.#exist(
      this.#ort.createTensor(ELEMENT_TYPES[type], address, bytes, this.#scratch, shape.length, CPU),
    );
    this.#tensors.set(address, { shape, handle });
    return handle;
  }

  /** Writes C strings and an array of pointers to them, which live as long as the runtime. */
  #namesOf(names: readonly string[]): number {
    const pointers = names.map((name) => {
      const text = new TextEncoder().encode(name);
      const address = this.allocate(text.length + 1);
      this.#bytes(address, text.length).set(text);
      return address;
    });
    const array = this.allocate(pointers.length * POINTER_BYTES);
    this.#setPointers(array, pointers);
    return array;
  }

  #setPointers(address: number, pointers: readonly number[]): void {
    new Uint32Array(this.memory.buffer, address, pointers.length).set(pointers);
  }

  #bytes(address: number, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, address, length);
  }

  #exist(handle: number): number {
    if (handle === 0) throw this.#lastError();
    return handle;
  }

  #lastError(): Error {
    this.#ort.getLastError(this.#scratch, this.#scratch + POINTER_BYTES);
    const [code = 0, message = 0] = new Uint32Array(this.memory.buffer, this.#scratch, 2);
    return new Error(`ONNX Runtime: ${this.#ort.readText(message)} (code ${code})`);
  }
}

function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, index) => size === b[index]);
}
