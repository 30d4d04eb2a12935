import type { Prospects } from "../src/pool/offer.ts";
import type { UpstreamFault } from "../src/protocol/upstream-problem.ts";
import type { InterruptedAnswer } from "../src/streaming/interrupted-answer.ts";

/** What came of a replica's answer. */
export type Reception = Delivery | Interruption | Unusable;

/** An answer whose end is there, well or not. */
export interface Delivery {
  readonly kind: "complete" | "broken";
  /** Lets the client see the end, which comes after everything is given back. */
  readonly deliver: () => Promise<void>;
}

/** The client has the beginning of an answer that another replica can go on with. */
export interface Interruption {
  readonly kind: "interrupted";
  readonly answer: InterruptedAnswer;
  readonly fault: UpstreamFault;
  /** To be called where none does: the answer is then broken. */
  readonly giveUp: () => Delivery;
}

/** The client has seen nothing of it, so another replica may still answer. */
interface Unusable {
  readonly kind: "unusable";
  readonly fault: UpstreamFault;
}

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
  /** Whether the replica says which tokens its chunks are from, so that another one can go on. */
  readonly tellsTokens: boolean;
  /** What to hope for of other replicas while this one pauses; `undefined`: nobody can say. */
  readonly prospects: () => Promise<Prospects | undefined>;
}

/** Takes a replica's answer in, as the client wants it: streamed or whole. */
export type ReceiveAnswer = (
  body: ReadableStream<Uint8Array>,
  line: AttemptLine,
) => Promise<Reception>;
