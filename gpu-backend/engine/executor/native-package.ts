import { createRequire } from "node:module";
import type { InferenceSession, Tensor } from "onnxruntime-web";
import { assert } from "../../../src/base/assert.ts";
import { messageOf } from "../message-of.ts";
import type { TensorValues } from "./tensor-values.ts";

const PACKAGE = "onnxruntime-node";
/** The version whose undocumented binding we call. */
const BINDING_VERSION = "1.30.0";

type Tensors = Record<string, Tensor>;

/** A session of the documented API, whose runs are promises, or of the binding, whose runs are done at once. */
export interface NativeSession {
  run(feeds: Tensors, fetches: Tensors, options: object): Promise<Tensors> | Tensors;
  release(): Promise<void> | void;
}

/** What we use of onnxruntime-node, whose tensors are those of onnxruntime-web. */
export interface NativePackage {
  readonly Tensor: new (type: string, values: TensorValues, shape: readonly number[]) => Tensor;
  createSession(model: Uint8Array, options: object): Promise<NativeSession>;
}

interface OrtNode {
  readonly InferenceSession: {
    create(model: Uint8Array, options: object): Promise<InferenceSession>;
  };
  readonly Tensor: NativePackage["Tensor"];
}

/** What lies beneath the documented API: it waits a turn of the event loop before every run. */
interface Binding {
  readonly initOrt: (this: void) => void;
  readonly binding: { readonly InferenceSession: new () => BoundSession };
}

interface BoundSession {
  loadModel(model: ArrayBufferLike, offset: number, byteLength: number, options: object): void;
  run(feeds: Tensors, fetches: Tensors, options: object): Tensors;
  dispose(): void;
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

/** Loads the package; throws, in words for the operator, where it is missing or does not load. */
export function loadNativePackage(): NativePackage {
  const ort = loadPart(PACKAGE, isOrtNode);
  return {
    Tensor: ort.Tensor,
    createSession: (model, options) => ort.InferenceSession.create(model, options),
  };
}

/** The same, but with its binding called at once; throws also where that is not as in our version. */
export function loadNativeBinding(): NativePackage {
  const { Tensor } = loadPart(PACKAGE, isOrtNode);
  const { version } = loadPart(`${PACKAGE}/package.json`, hasVersion);
  if (version !== BINDING_VERSION) {
    throw new Error(`expected ${PACKAGE} ${BINDING_VERSION}, found ${version}`);
  }
  const { initOrt, binding } = loadPart(`${PACKAGE}/dist/binding.js`, isBinding);
  initOrt();
  return {
    Tensor,
    createSession: async ({ buffer, byteOffset, byteLength }, options) => {
      const session = new binding.InferenceSession();
      session.loadModel(buffer, byteOffset, byteLength, options);
      return {
        run: (feeds, fetches, runOptions) => session.run(feeds, fetches, runOptions),
        release: () => session.dispose(),
      };
    },
  };
}

function loadPart<T>(name: string, isAsExpected: (loaded: unknown) => loaded is T): T {
  if (!hasNativePackage()) {
    throw new Error(
      `${PACKAGE} is not installed; ONNXRUNTIME_NODE_INSTALL=skip npm install --no-save ${PACKAGE}@${BINDING_VERSION}`,
    );
  }
  let loaded: unknown;
  try {
    loaded = createRequire(import.meta.url)(name);
  } catch (error) {
    throw new Error(`${name} does not load here: ${messageOf(error)}`, { cause: error });
  }
  assert(isAsExpected(loaded), `${name} has what we use of it`);
  return loaded;
}

function has<Key extends string>(loaded: unknown, ...keys: Key[]): loaded is Record<Key, unknown> {
  return typeof loaded === "object" && loaded !== null && keys.every((key) => key in loaded);
}

const isOrtNode = (loaded: unknown): loaded is OrtNode => has(loaded, "InferenceSession", "Tensor");

const hasVersion = (loaded: unknown): loaded is { readonly version: string } =>
  has(loaded, "version") && typeof loaded.version === "string";

const isBinding = (loaded: unknown): loaded is Binding =>
  has(loaded, "initOrt", "binding") && has(loaded.binding, "InferenceSession");
