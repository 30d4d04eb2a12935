import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";

/** What came of a replica's answer. */
export type Reception =
  | {
      readonly kind: "complete" | "broken";
      /** Lets the client see the end, which comes after everything is given back. */
      readonly deliver: () => Promise<void>;
    }
  /** The client has seen nothing of it, so another replica may still answer. */
  | { readonly kind: "unusable"; readonly fault: UpstreamFault };

/**
 * Takes a replica's answer in, as the client wants it: streamed or whole. A streamed one tells when its
 * first token came.
 */
export type ReceiveAnswer = (
  body: ReadableStream<Uint8Array>,
  onFirstToken: (atMs: number) => void,
) => Promise<Reception>;
