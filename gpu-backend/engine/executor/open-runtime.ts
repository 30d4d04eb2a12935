import * as ort from "onnxruntime-web";
import { checkRuntime } from "./check-runtime.ts";
import { DirectRuntime } from "./direct-runtime.ts";
import { PublicRuntime } from "./public-runtime.ts";
import type { SegmentRuntime } from "./segment-runtime.ts";

/** How ONNX Runtime is called: by its exports, or by its documented API at twice the cost. */
export type RuntimeKind = "direct" | "public";

/** A runtime that passed its check, and why it is not the faster one, if so. */
export interface OpenedRuntime {
  readonly runtime: SegmentRuntime;
  readonly kind: RuntimeKind;
  readonly notes: readonly string[];
}

/** The version whose undocumented exports `DirectRuntime` was written for. */
const DIRECT_VERSION = "1.30.0";

/** The version of onnxruntime-web that is installed. */
export const ORT_VERSION = ort.env.versions.web ?? "unknown";

/**
 * Opens the direct runtime, or the public one where the direct one does not pass its check or
 * `kind` demands it. Throws if the public one does not pass either.
 */
export async function openRuntime(kind: RuntimeKind = "direct"): Promise<OpenedRuntime> {
  const notes: string[] = [];
  if (kind === "direct") {
    try {
      return { runtime: await openDirect(), kind, notes };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      notes.push(`Steps cost more than need be: ONNX Runtime cannot be called directly: ${reason}`);
    }
  }
  const runtime = PublicRuntime.create();
  await checkRuntime(runtime);
  return { runtime, kind: "public", notes };
}

async function openDirect(): Promise<SegmentRuntime> {
  if (ORT_VERSION !== DIRECT_VERSION) {
    throw new Error(`expected onnxruntime-web ${DIRECT_VERSION}, found ${ORT_VERSION}`);
  }
  const runtime = await DirectRuntime.create();
  await checkRuntime(runtime);
  return runtime;
}
