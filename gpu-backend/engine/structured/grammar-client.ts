import { Worker } from "node:worker_threads";
import type { TokenConstraint } from "../token-constraint.ts";
import { FollowedConstraint } from "./followed-constraint.ts";
import type { GrammarCommand, GrammarMessage, GrammarThreadInput } from "./grammar-messages.ts";
import { MaskMemory } from "./mask-memory.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What became of a grammar that was to be compiled. */
type CompileOutcome =
  | { readonly kind: "compiled" }
  | { readonly kind: "failed"; readonly message: string };

export interface GrammarClientOptions {
  readonly vocabulary: Vocabulary;
  /** A grammar that takes longer is given up with its thread. */
  readonly compileMsMax: number;
  /** Called when the thread has broken outside of `compile`. */
  readonly onBroken: () => void;
}

const THREAD_URL = new URL("./grammar-thread-start.mjs", import.meta.url);
/**
 * A mask comes within a millisecond of its thread's time, while the model computes. Longer than this the
 * step, and with it every other sequence, waits for none. It is so long because that thread shares the
 * cores with the model and with another grammar that may be compiled just then: a machine that is so busy
 * that it leaves a thread waiting for seconds is no reason to give up a sound grammar.
 */
const MASK_MS_MAX = 5000;

/**
 * One grammar in a thread of its own, so that whatever it does to the library it does to itself: an
 * explosion of memory, a trap, a mask that never comes.
 */
export class GrammarClient {
  readonly #options: GrammarClientOptions;
  readonly #thread: Worker;
  /** Resolves when the thread listens; how long that takes, no grammar has a part in. */
  readonly #started: Promise<void>;
  #resolveStarted: () => void = () => {};
  #settleCompile: ((outcome: CompileOutcome) => void) | undefined;
  #failure: string | undefined;
  #opened = 0;

  constructor(options: GrammarClientOptions) {
    this.#options = options;
    this.#started = new Promise((resolve) => (this.#resolveStarted = resolve));
    const workerData: GrammarThreadInput = { vocabulary: options.vocabulary };
    this.#thread = new Worker(THREAD_URL, { workerData, stdout: true, stderr: true });
    // The library prints the grammars it fails at, which are made of what a client sent.
    this.#thread.stdout.resume();
    this.#thread.stderr.resume();
    this.#thread.on("message", (message: GrammarMessage) => this.#hear(message));
    this.#thread.on("error", (error) => this.#break(error.message));
    this.#thread.on("exit", (code) => this.#break(`The grammar thread ended with code ${code}`));
  }

  /** Replaces the grammar. Once, until it has settled, and while no constraint is open. */
  async compile(grammar: string): Promise<CompileOutcome> {
    await this.#started;
    if (this.#failure !== undefined) return { kind: "failed", message: this.#failure };
    const { compileMsMax } = this.#options;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.#break(`Compiling took longer than ${compileMsMax} ms`),
        compileMsMax,
      );
      this.#settleCompile = (outcome) => {
        clearTimeout(timer);
        this.#settleCompile = undefined;
        resolve(outcome);
      };
      this.#post({ kind: "compile", grammar });
    });
  }

  /**
   * A constraint for one sequence, behind tokens that it has already; where the grammar lets no text begin
   * with those, it allows nothing. `onDispose` is called when the sequence has ended.
   */
  open(emittedTokens: readonly number[], onDispose: () => void): TokenConstraint {
    const id = this.#opened;
    this.#opened += 1;
    const memory = new MaskMemory({ logitCount: this.#options.vocabulary.logitCount });
    this.#post({ kind: "open", id, emittedTokens, memory: memory.buffer });
    let maskCount = 1;
    return new FollowedConstraint({
      mask: () => {
        this.#awaitMask(memory, maskCount);
        return memory.mask;
      },
      accept: (tokenId) => {
        maskCount += 1;
        this.#post({ kind: "accept", id, tokenId });
      },
      goBack: (tokens) => this.#post({ kind: "go-back", id, tokens }),
      close: () => {
        this.#post({ kind: "close", id });
        onDispose();
      },
    });
  }

  /** Ends the thread; constraints that are still open throw from now on. */
  async close(): Promise<void> {
    this.#failure ??= "The grammar was closed";
    this.#resolveStarted();
    this.#settleCompile?.({ kind: "failed", message: this.#failure });
    await this.#thread.terminate();
  }

  #awaitMask(memory: MaskMemory, maskCount: number): void {
    const wait = this.#failure === undefined ? memory.await(maskCount, MASK_MS_MAX) : "broken";
    if (wait === "ready") return;
    const message =
      wait === "timed-out" ? `A mask took longer than ${MASK_MS_MAX} ms` : "The grammar broke";
    this.#break(message);
    throw new Error(message);
  }

  #hear(message: GrammarMessage): void {
    switch (message.kind) {
      case "started":
        this.#resolveStarted();
        break;
      case "compiled":
        this.#settleCompile?.({ kind: "compiled" });
        break;
      case "broken":
        this.#break(message.message);
        break;
    }
  }

  #break(message: string): void {
    if (this.#failure !== undefined) return;
    this.#failure = message;
    this.#resolveStarted();
    void this.#thread.terminate();
    if (this.#settleCompile !== undefined) this.#settleCompile({ kind: "failed", message });
    else this.#options.onBroken();
  }

  #post(command: GrammarCommand): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#thread.postMessage(command);
  }
}
