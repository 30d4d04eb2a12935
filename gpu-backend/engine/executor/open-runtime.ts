import * as ort from "onnxruntime-web";
import { messageOf } from "../message-of.ts";
import { checkRowsAlone, checkRuntime } from "./check-runtime.ts";
import { DirectRuntime } from "./direct-runtime.ts";
import type { Precision } from "./load-stages.ts";
import { hasNativePackage, loadNativeBinding, loadNativePackage } from "./native-package.ts";
import { NativeRuntime } from "./native-runtime.ts";
import { OwnRuntime } from "./own-runtime.ts";
import { PublicRuntime } from "./public-runtime.ts";
import type { RuntimeChoice } from "./runtime-choice.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

/**
 * What runs a model: ONNX Runtime natively, where onnxruntime-node is installed, through its binding or
 * its documented API, or on a GPU through the latter; ONNX Runtime in WebAssembly, through its C exports or
 * its documented API; or our own kernels, which is all that int8 needs.
 */
export type RuntimeKind = "native" | "native-public" | "webgpu" | "own" | "direct" | "public";

/** One way to run a model. */
export interface RuntimeCandidate {
  readonly kind: RuntimeKind;
  /** Whether it runs graphs, and so is to be checked. */
  readonly runsGraphs: boolean;
  /** Throws if this way is not open here. */
  readonly open: () => Promise<SegmentRuntime>;
}

/** A runtime that passed its check, and why it is not a faster one, if so. */
export interface OpenedRuntime {
  readonly runtime: SegmentRuntime;
  readonly kind: RuntimeKind;
  readonly notes: readonly string[];
}

/** The version of onnxruntime-web that is installed. */
export const ORT_VERSION = ort.env.versions.web ?? "unknown";
/** The version whose undocumented exports `DirectRuntime` was written for. */
const DIRECT_VERSION = "1.30.0";

/** The ways that need onnxruntime-node, the fastest first. */
const NATIVE_CANDIDATES: readonly RuntimeCandidate[] = [
  { kind: "native", runsGraphs: true, open: async () => NativeRuntime.create(loadNativeBinding()) },
  {
    kind: "native-public",
    runsGraphs: true,
    open: async () => NativeRuntime.create(loadNativePackage()),
  },
];

/** The ways that need nothing but our own dependencies, the fastest first. */
export const WASM_CANDIDATES: readonly RuntimeCandidate[] = [
  {
    kind: "direct",
    runsGraphs: true,
    open: async () => {
      if (ORT_VERSION === DIRECT_VERSION) return DirectRuntime.create();
      throw new Error(`expected onnxruntime-web ${DIRECT_VERSION}, found ${ORT_VERSION}`);
    },
  },
  { kind: "public", runsGraphs: true, open: async () => PublicRuntime.create() },
];

const WEBGPU: RuntimeCandidate = {
  kind: "webgpu",
  runsGraphs: true,
  open: async () => NativeRuntime.create(loadNativePackage(), "webgpu"),
};

const OWN: RuntimeCandidate = {
  kind: "own",
  runsGraphs: false,
  open: async () => new OwnRuntime(),
};

/** The ways that a choice leaves, the fastest first. A package that nobody installed is no fault. */
export function candidatesFor(
  choice: RuntimeChoice,
  precision: Precision,
): readonly RuntimeCandidate[] {
  if (choice === "node") return NATIVE_CANDIDATES;
  if (choice === "webgpu") return [WEBGPU];
  const wasm = precision === "int8" ? [OWN, ...WASM_CANDIDATES] : WASM_CANDIDATES;
  return choice === "wasm" || !hasNativePackage() ? wasm : [...NATIVE_CANDIDATES, ...wasm];
}

/**
 * Opens the first candidate that passes `checkRuntime`, with a note for each that does not. Throws
 * if none does.
 */
export async function openRuntime(candidates: readonly RuntimeCandidate[]): Promise<OpenedRuntime> {
  const notes: string[] = [];
  for (const { kind, runsGraphs, open } of candidates) {
    try {
      const runtime = runsGraphs ? await openChecked(open) : await open();
      return { runtime, kind, notes };
    } catch (error) {
      const reason = messageOf(error);
      notes.push(`ONNX Runtime cannot be called in the ${kind} way: ${reason}`);
    }
  }
  throw new Error(notes.join("; "));
}

async function openChecked(open: RuntimeCandidate["open"]): Promise<SegmentRuntime> {
  const runtime = await open();
  try {
    await checkRuntime(runtime);
    await checkRowsAlone(runtime);
    return runtime;
  } catch (error) {
    await runtime.close();
    throw error;
  }
}
