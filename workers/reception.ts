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

/** How the receiver of an answer and its attempt keep each other informed. */
export interface AttemptLine {
  /** Fires when the attempt is given up: what comes afterwards must not reach the client. */
  readonly signal: AbortSignal;
  /** Resolves when the call is in its tenant's ledger: before that the client must see no token. */
  readonly recorded: Promise<void>;
  /** To be told before the client is given anything: from then on no other answer may be. */
  readonly onAnswer: () => void;
  /** To be told when the first token of a streamed answer has come. */
  readonly onFirstToken: (atMs: number) => void;
  /** From a streamed answer's first token on, a pause this long is a stall. */
  readonly stallMarkMs: number;
  /** To be told of every stall, while it lasts. */
  readonly onStall: () => void;
}

/** Takes a replica's answer in, as the client wants it: streamed or whole. */
export type ReceiveAnswer = (
  body: ReadableStream<Uint8Array>,
  line: AttemptLine,
) => Promise<Reception>;
