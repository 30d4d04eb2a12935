import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { assert } from "../../../src/base/assert.ts";
import { LOG_FATAL } from "./segment-runtime.ts";
import { instantiateWasm, memoryAmong, type WasmInstance, type WasmMemory } from "./wasm-memory.ts";

/**
 * The C functions that onnxruntime-web's WebAssembly build exports, as far as we call them. They are
 * not documented; the signatures are those of version 1.30.0. Handles and pointers are addresses in
 * the module's heap, 0 is none, and a status other than 0 is an error.
 */
export interface OrtExports {
  init(threads: number, logSeverity: number): number;
  getLastError(codeAddress: number, messageAddress: number): number;
  createSessionOptions(
    optimizationLevel: number,
    memoryArena: boolean,
    memoryPattern: boolean,
    executionMode: number,
    profiling: boolean,
    profilePrefix: number,
    logId: number,
    logSeverity: number,
    logVerbosity: number,
    optimizedModelPath: number,
  ): number;
  releaseSessionOptions(options: number): number;
  createSession(model: number, modelBytes: number, options: number): number | Promise<number>;
  releaseSession(session: number): number;
  createTensor(
    elementType: number,
    values: number,
    valueBytes: number,
    dimensions: number,
    dimensionCount: number,
    location: number,
  ): number;
  releaseTensor(tensor: number): number;
  createRunOptions(
    logSeverity: number,
    logVerbosity: number,
    terminate: boolean,
    tag: number,
  ): number;
  releaseRunOptions(options: number): number;
  run(
    session: number,
    inputNames: number,
    inputs: number,
    inputCount: number,
    outputNames: number,
    outputCount: number,
    outputs: number,
    options: number,
  ): number | Promise<number>;
  allocate(byteLength: number): number;
  free(address: number): void;
  readText(address: number): string;
}

/** What each function is called in the module. */
const EXPORT_NAMES: Record<keyof OrtExports, string> = {
  init: "_OrtInit",
  getLastError: "_OrtGetLastError",
  createSessionOptions: "_OrtCreateSessionOptions",
  releaseSessionOptions: "_OrtReleaseSessionOptions",
  createSession: "_OrtCreateSession",
  releaseSession: "_OrtReleaseSession",
  createTensor: "_OrtCreateTensor",
  releaseTensor: "_OrtReleaseTensor",
  createRunOptions: "_OrtCreateRunOptions",
  releaseRunOptions: "_OrtReleaseRunOptions",
  run: "_OrtRun",
  allocate: "_malloc",
  free: "_free",
  readText: "UTF8ToString",
};

/** The script that Emscripten made around the wasm file; each call makes a module of its own. */
interface OrtScript {
  readonly default: (settings: {
    readonly numThreads: number;
    readonly instantiateWasm: (
      imports: object,
      done: (instance: WasmInstance["instance"], compiled: object) => void,
    ) => void;
  }) => Promise<object>;
}

/** ONNX Runtime with a heap of its own, ready for one thread. */
export interface OrtModule {
  readonly ort: OrtExports;
  readonly memory: WasmMemory;
}

const idleModules: OrtModule[] = [];

/**
 * Takes a module that was given back, or loads another one. Throws when the installed build does not
 * have what we expect.
 */
export async function acquireOrtModule(): Promise<OrtModule> {
  return idleModules.pop() ?? loadOrtModule();
}

/**
 * Gives a module back, with all of its heap freed. It is kept for the next to come, since it cannot
 * be dropped: Emscripten waits for messages of other threads in the heap, asynchronously and for
 * good, and that wait holds all of it. So there are never more than were in use at once.
 */
export function releaseOrtModule(ortModule: OrtModule): void {
  idleModules.push(ortModule);
}

async function loadOrtModule(): Promise<OrtModule> {
  const { resolve } = createRequire(import.meta.url);
  const scriptUrl = pathToFileURL(resolve("onnxruntime-web/ort-wasm-simd-threaded.mjs")).href;
  const script: unknown = await import(scriptUrl);
  assert(isOrtScript(script), "ONNX Runtime's script exports a function");
  let memory: WasmMemory | undefined;
  const exported = await script.default({
    numThreads: 1,
    // The heap is not among the exports, so it is taken from what the module imports.
    instantiateWasm: (imports, done) => {
      memory = memoryAmong(imports);
      const wasm = readFileSync(resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm"));
      const { instance, compiled } = instantiateWasm(wasm, imports);
      done(instance, compiled);
    },
  });
  const ort: object = Object.fromEntries(
    Object.entries(EXPORT_NAMES).map(([name, exportName]) => [
      name,
      Reflect.get(exported, exportName),
    ]),
  );
  assert(isOrtExports(ort), "ONNX Runtime exports the functions we call");
  assert(memory !== undefined, "ONNX Runtime imports its memory");
  assert(ort.init(1, LOG_FATAL) === 0, "ONNX Runtime starts");
  return { ort, memory };
}

function isOrtScript(value: unknown): value is OrtScript {
  return (
    typeof value === "object" &&
    value !== null &&
    "default" in value &&
    typeof value.default === "function"
  );
}

function isOrtExports(value: object): value is OrtExports {
  return Object.keys(EXPORT_NAMES).every((name) => typeof Reflect.get(value, name) === "function");
}
