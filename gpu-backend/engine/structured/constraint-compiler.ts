import type { ConstraintSpec } from "../generate-request.ts";
import type { TokenConstraint } from "../token-constraint.ts";
import { constraintGrammar } from "./constraint-grammar.ts";
import { GrammarClient } from "./grammar-client.ts";
import { SchemaFault } from "./schema-fault.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What became of a constraint that was asked for. */
export type OpenedConstraint =
  | { readonly kind: "opened"; readonly constraint: TokenConstraint }
  /** Its sender's fault, and the same at every attempt. */
  | { readonly kind: "refused"; readonly message: string }
  /** Every place is taken by grammars in use, and so is the queue for them. */
  | { readonly kind: "busy" };

export interface ConstraintCompilerOptions {
  readonly vocabulary: Vocabulary;
  /** Grammars that are kept, each in a thread of about 60 MB. */
  readonly grammarsMax?: number;
  /** Grammars that may wait to be compiled. */
  readonly queueMax?: number;
  readonly compileMsMax?: number;
}

const GRAMMARS_MAX = 6;
const QUEUE_MAX = 64;
const COMPILE_MS_MAX = 8000;
/**
 * Grammars that failed and are remembered, so that sending one again and again costs nothing; not
 * for long, since on a busier machine than usual a good one may fail too.
 */
const FAILURES_MAX = 64;
const FAILURE_MS = 60_000;

/** What a grammar came to: the thread that it is served by, or why there is none. */
type Readiness =
  | { readonly kind: "ready"; readonly client: GrammarClient }
  | { readonly kind: "failed"; readonly message: string };

/** A grammar that is kept, or is about to be. */
interface Entry {
  readonly grammar: string;
  /** Undefined until the grammar was compiled. */
  readiness: Readiness | undefined;
  readonly waiters: ((readiness: Readiness) => void)[];
  /** Constraints that are open, or will be when the grammar is compiled. */
  uses: number;
}

/**
 * Turns constraints into masks of tokens. Equal ones share a compiled grammar; the one unused for
 * longest makes room for a new one, and none that is in use ever does.
 *
 * Grammars are compiled one at a time, each in the thread where it then stays, while the engine's goes
 * on stepping. One that fails, or is not done in time, takes only its own thread with it.
 */
export class ConstraintCompiler {
  readonly #options: Required<ConstraintCompilerOptions>;
  /** By grammar, the longest unused first. */
  readonly #entries = new Map<string, Entry>();
  readonly #queue: Entry[] = [];
  readonly #clients = new Set<GrammarClient>();
  readonly #failures = new Map<string, string>();
  #isCompiling = false;
  #isClosed = false;

  constructor(options: ConstraintCompilerOptions) {
    this.#options = {
      grammarsMax: GRAMMARS_MAX,
      queueMax: QUEUE_MAX,
      compileMsMax: COMPILE_MS_MAX,
      ...options,
    };
  }

  /** Constraints that are open or about to be; 0 when everything was given back. */
  get uses(): number {
    return [...this.#entries.values()].reduce((sum, { uses }) => sum + uses, 0);
  }

  /** Grammars that are kept or waiting. */
  get grammars(): number {
    return this.#entries.size;
  }

  /**
   * Opens a constraint for one sequence, behind the tokens that are there of it; it has to be disposed of.
   * Rejects only for what was to be checked where it came in: text that is no JSON, a tool's name.
   */
  async open(
    spec: ConstraintSpec,
    emittedTokens: readonly number[] = [],
  ): Promise<OpenedConstraint> {
    let grammar: string;
    try {
      grammar = constraintGrammar(spec);
    } catch (error) {
      if (!(error instanceof SchemaFault)) throw error;
      return { kind: "refused", message: error.message };
    }
    const failure = this.#failures.get(grammar);
    if (failure !== undefined) return { kind: "refused", message: failure };
    const entry = this.#entries.get(grammar) ?? this.#enqueue(grammar);
    if (entry === undefined) return { kind: "busy" };
    this.#entries.delete(grammar);
    this.#entries.set(grammar, entry);
    entry.uses += 1;
    const readiness = entry.readiness ?? (await readinessOf(entry));
    if (readiness.kind === "failed") return { kind: "refused", message: readiness.message };
    const constraint = readiness.client.open(emittedTokens, () => this.#release(entry));
    return { kind: "opened", constraint };
  }

  /** Ends all threads. Open constraints throw from now on; those that wait are refused. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const clients = [...this.#clients];
    this.#clients.clear();
    for (const entry of this.#queue.splice(0)) {
      settle(entry, { kind: "failed", message: "The engine is closing" });
    }
    this.#entries.clear();
    await Promise.all(clients.map((client) => client.close()));
  }

  #enqueue(grammar: string): Entry | undefined {
    if (this.#isClosed || this.#queue.length >= this.#options.queueMax) return undefined;
    const entry: Entry = { grammar, readiness: undefined, waiters: [], uses: 0 };
    this.#entries.set(grammar, entry);
    this.#queue.push(entry);
    this.#compileNext();
    return entry;
  }

  /** Compiles the first in the queue once there is a thread for it. */
  #compileNext(): void {
    if (this.#isCompiling || this.#queue.length === 0) return;
    const client = this.#freeClient();
    const entry = client && this.#queue.shift();
    if (client === undefined || entry === undefined) return;
    this.#isCompiling = true;
    void this.#compile(entry, client);
  }

  async #compile(entry: Entry, client: GrammarClient): Promise<void> {
    const outcome = await client.compile(entry.grammar);
    this.#isCompiling = false;
    if (outcome.kind === "compiled") {
      settle(entry, { kind: "ready", client });
    } else {
      this.#rememberFailure(entry.grammar, client, outcome.message);
      settle(entry, outcome);
    }
    this.#compileNext();
  }

  #freeClient(): GrammarClient | undefined {
    if (this.#clients.size < this.#options.grammarsMax) return this.#startClient();
    for (const { grammar, readiness, uses } of this.#entries.values()) {
      if (readiness?.kind !== "ready" || uses > 0) continue;
      this.#entries.delete(grammar);
      return readiness.client;
    }
    return undefined;
  }

  #startClient(): GrammarClient {
    const client = new GrammarClient({
      vocabulary: this.#options.vocabulary,
      compileMsMax: this.#options.compileMsMax,
      onBroken: () => this.#forget(client),
    });
    this.#clients.add(client);
    return client;
  }

  #rememberFailure(grammar: string, client: GrammarClient, message: string): void {
    this.#clients.delete(client);
    this.#entries.delete(grammar);
    this.#failures.set(grammar, message);
    setTimeout(() => this.#failures.delete(grammar), FAILURE_MS).unref();
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > FAILURES_MAX && oldest !== undefined) this.#failures.delete(oldest);
  }

  /** Leaves out a thread that broke while its grammar was in use; the next request starts anew. */
  #forget(client: GrammarClient): void {
    this.#clients.delete(client);
    for (const { grammar, readiness } of this.#entries.values()) {
      if (readiness?.kind === "ready" && readiness.client === client) this.#entries.delete(grammar);
    }
    this.#compileNext();
  }

  #release(entry: Entry): void {
    entry.uses -= 1;
    this.#compileNext();
  }
}

function readinessOf(entry: Entry): Promise<Readiness> {
  return new Promise((resolve) => entry.waiters.push(resolve));
}

function settle(entry: Entry, readiness: Readiness): void {
  entry.readiness = readiness;
  for (const resolve of entry.waiters.splice(0)) resolve(readiness);
}
