import * as ort from "onnxruntime-web";
import { messageOf } from "../message-of.ts";
import { checkRuntime } from "./check-runtime.ts";
import { DirectRuntime } from "./direct-runtime.ts";
import { hasNativePackage, NativeRuntime } from "./native-runtime.ts";
import { PublicRuntime } from "./public-runtime.ts";
import type { RuntimeChoice } from "./runtime-choice.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

/**
 * How ONNX Runtime is called: natively, where onnxruntime-node is installed, or in WebAssembly, through
 * its C exports or its documented API.
 */
export type RuntimeKind = "native" | "direct" | "public";

/** One way to call ONNX Runtime. */
export interface RuntimeCandidate {
  readonly kind: RuntimeKind;
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

const NATIVE: RuntimeCandidate = { kind: "native", open: () => NativeRuntime.create() };

/** The ways that need nothing but our own dependencies, the fastest first. */
export const WASM_CANDIDATES: readonly RuntimeCandidate[] = [
  {
    kind: "direct",
    open: async () => {
      if (ORT_VERSION === DIRECT_VERSION) return DirectRuntime.create();
      throw new Error(`expected onnxruntime-web ${DIRECT_VERSION}, found ${ORT_VERSION}`);
    },
  },
  { kind: "public", open: async () => PublicRuntime.create() },
];

/** The ways that a choice leaves, the fastest first. A package that nobody installed is no fault. */
export function candidatesFor(choice: RuntimeChoice): readonly RuntimeCandidate[] {
  if (choice === "node") return [NATIVE];
  return choice === "auto" && hasNativePackage() ? [NATIVE, ...WASM_CANDIDATES] : WASM_CANDIDATES;
}

/**
 * Opens the first candidate that passes `checkRuntime`, with a note for each that does not. Throws
 * if none does.
 */
export async function openRuntime(candidates: readonly RuntimeCandidate[]): Promise<OpenedRuntime> {
  const notes: string[] = [];
  for (const { kind, open } of candidates) {
    try {
      return { runtime: await openChecked(open), kind, notes };
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
    return runtime;
  } catch (error) {
    await runtime.close();
    throw error;
  }
}
