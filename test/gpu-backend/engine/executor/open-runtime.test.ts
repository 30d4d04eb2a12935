import { describe, expect, test } from "vitest";
import {
  candidatesFor,
  openRuntime,
  WASM_CANDIDATES,
  type RuntimeCandidate,
} from "../../../../gpu-backend/engine/executor/open-runtime.ts";
import { PublicRuntime } from "../../../../gpu-backend/engine/executor/public-runtime.ts";

/** A way that is open only until it is used: its segments write nothing. */
function uselessCandidate(onClose: () => void): RuntimeCandidate {
  const runtime = PublicRuntime.create();
  return {
    kind: "direct",
    runsGraphs: true,
    open: async () => ({
      memory: runtime.memory,
      multipliesIntegers: false,
      allocate: (byteLength) => runtime.allocate(byteLength),
      load: async () => ({ run: async () => {} }),
      close: async () => onClose(),
    }),
  };
}

const closedCandidate: RuntimeCandidate = {
  kind: "direct",
  runsGraphs: true,
  open: async () => {
    throw new Error("expected onnxruntime-web 1.30.0, found 2.0.0");
  },
};

const publicCandidates = WASM_CANDIDATES.filter(({ kind }) => kind === "public");

describe("openRuntime", () => {
  test("the direct way is taken where it works, and nothing is to be said", async () => {
    const { kind, notes, runtime } = await openRuntime(WASM_CANDIDATES);
    expect({ kind, notes }).toEqual({ kind: "direct", notes: [] });
    await runtime.close();
  });

  test("another version falls back to the documented way, with a note", async () => {
    const { kind, notes, runtime } = await openRuntime([closedCandidate, ...publicCandidates]);
    expect({ kind, notes }).toEqual({
      kind: "public",
      notes: [
        "ONNX Runtime cannot be called in the direct way: expected onnxruntime-web 1.30.0, found 2.0.0",
      ],
    });
    await runtime.close();
  });

  test("a way that computes wrongly is closed again and passed over", async () => {
    let closed = 0;
    const useless = uselessCandidate(() => (closed += 1));
    const { kind, notes, runtime } = await openRuntime([useless, ...publicCandidates]);
    expect({ kind, closed, notes: notes.length }).toEqual({ kind: "public", closed: 1, notes: 1 });
    await runtime.close();
  });

  test("int8 needs no ONNX Runtime, and what takes its place runs no graphs", async () => {
    const { kind, notes, runtime } = await openRuntime(candidatesFor("wasm", "int8"));
    expect({ kind, notes }).toEqual({ kind: "own", notes: [] });
    const graph = { model: new Uint8Array(0), inputs: [], outputs: [] };
    await expect(runtime.load(graph)).rejects.toThrow("a model in f32 needs ONNX Runtime");
    await runtime.close();
  });

  test("where no way works, the reasons are told", async () => {
    await expect(openRuntime([closedCandidate])).rejects.toThrow("found 2.0.0");
  });
});
