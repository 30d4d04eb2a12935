import type { Tensor } from "onnxruntime-web";

/**
 * Leads nowhere: what is transferred to it is freed at once. Left to the collector, copies of outputs, a
 * megabyte a step, make it run so often that a step takes 40 % more CPU time.
 */
const { port1: sink, port2 } = new MessageChannel();
port2.close();

/** Frees the numbers of tensors on the processor, which nobody can read any more. */
export function freeTensors(tensors: Readonly<Record<string, Tensor>>): void {
  for (const name in tensors) {
    const values = tensors[name]?.data;
    if (ArrayBuffer.isView(values) && values.buffer instanceof ArrayBuffer) {
      sink.postMessage(undefined, [values.buffer]);
    }
  }
}
