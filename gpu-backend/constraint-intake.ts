import type { ConstraintSpec, GenerateRequest, RefusalReason } from "./engine/generate-request.ts";
import { messageOf } from "./engine/message-of.ts";
import type {
  ConstraintCompiler,
  OpenedConstraint,
} from "./engine/structured/constraint-compiler.ts";
import type { StepLoop } from "./step-loop.ts";

interface CompilerFault {
  readonly kind: "failed";
  readonly message: string;
}

/**
 * Lets requests wait for their constraints before the loop sees them; the loop steps on meanwhile, and
 * requests without one pass by.
 *
 * A request that is cancelled while it waits ends as soon as its constraint is there: its compilation
 * may be shared with others, and ends within a bound of its own.
 */
export class ConstraintIntake {
  readonly #loop: Pick<StepLoop, "submit" | "turnAway" | "cancel">;
  readonly #compiler: Pick<ConstraintCompiler, "open">;
  readonly #endTokenIds: readonly number[];
  /** Requests that wait, and whether they were cancelled. Whoever sends them bounds how many. */
  readonly #isCancelled = new Map<string, boolean>();

  /** `endTokenIds`: what a constraint allows where the text is complete. */
  constructor(
    loop: Pick<StepLoop, "submit" | "turnAway" | "cancel">,
    compiler: Pick<ConstraintCompiler, "open">,
    endTokenIds: readonly number[],
  ) {
    this.#loop = loop;
    this.#compiler = compiler;
    this.#endTokenIds = endTokenIds;
  }

  /** Requests that wait for their constraints. */
  get openingRequests(): number {
    return this.#isCancelled.size;
  }

  submit(request: GenerateRequest): void {
    const { constraint } = request;
    if (constraint === undefined) this.#loop.submit(request);
    else void this.#open(request, constraint);
  }

  cancel(id: string): void {
    if (this.#isCancelled.has(id)) this.#isCancelled.set(id, true);
    else this.#loop.cancel(id);
  }

  async #open(request: GenerateRequest, spec: ConstraintSpec): Promise<void> {
    const { id } = request;
    this.#isCancelled.set(id, false);
    const opened = await this.#compile(spec, request.emittedTokens ?? []);
    const isCancelled = this.#isCancelled.get(id) === true;
    this.#isCancelled.delete(id);
    switch (opened.kind) {
      case "opened":
        this.#loop.submit(this.#endable(request), opened.constraint);
        if (isCancelled) this.#loop.cancel(id);
        break;
      case "refused":
        this.#turnAway(id, "constraint-refused", opened.message);
        break;
      case "busy":
        this.#turnAway(id, "queue-full", "Too many different grammars are in use");
        break;
      case "failed":
        this.#loop.turnAway({ kind: "failed", id, message: opened.message });
        break;
    }
  }

  #turnAway(id: string, reason: RefusalReason, message: string): void {
    this.#loop.turnAway({ kind: "refused", id, reason, message });
  }

  /** A fault of ours in one grammar is no reason to end the thread that serves all others. */
  async #compile(
    spec: ConstraintSpec,
    emittedTokens: readonly number[],
  ): Promise<OpenedConstraint | CompilerFault> {
    try {
      return await this.#compiler.open(spec, emittedTokens);
    } catch (error) {
      return { kind: "failed", message: messageOf(error) };
    }
  }

  /** Where a constrained text is complete nothing but its end is left, so that has to end it. */
  #endable(request: GenerateRequest): GenerateRequest {
    const stopTokenIds = [...new Set([...request.stopTokenIds, ...this.#endTokenIds])];
    return { ...request, stopTokenIds };
  }
}
