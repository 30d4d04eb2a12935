import { assert } from "../../src/base/assert.ts";
import type { Batch, BatchRow } from "./batch.ts";

/** How a request ends that does not come to its own end. */
export type Ending =
  | { readonly kind: "cancelled" }
  | { readonly kind: "failed"; readonly message: string };

/** What a step brought one row: a token if it asked for one, or the end of its request. */
export interface RowOutcome {
  readonly row: BatchRow;
  readonly tokenId: number | undefined;
  readonly ending: Ending | undefined;
}

/**
 * A step between its plan and its commit or rollback.
 *
 * Its rows use blocks of their requests, so whoever ends in the meantime ends with the step, once, and
 * what the row yields is not looked at.
 */
export class PendingStep {
  readonly batch: Batch;
  readonly #endings = new Map<string, Ending>();

  constructor(batch: Batch) {
    this.batch = batch;
  }

  /** The requests that end with this step. */
  get endings(): ReadonlyMap<string, Ending> {
    return this.#endings;
  }

  includes(id: string): boolean {
    return this.batch.rows.some((row) => row.sequenceId === id);
  }

  /** Ends a request of the batch with this step. A failure outranks a cancel: its KV is not kept. */
  endWithStep(id: string, ending: Ending): void {
    if (this.#endings.get(id)?.kind !== "failed") this.#endings.set(id, ending);
  }

  /**
   * Matches rows with `sampledTokens`: one a row with `logits: "last"`, in order. Throws before anything
   * is applied if a row that goes on lacks its token.
   */
  outcomes(sampledTokens: Int32Array): RowOutcome[] {
    let sampledCount = 0;
    const outcomes = this.batch.rows.map((row): RowOutcome => {
      const ending = this.#endings.get(row.sequenceId);
      if (row.logits !== "last") return { row, tokenId: undefined, ending };
      const tokenId = sampledTokens[sampledCount++];
      const isToken = tokenId !== undefined && tokenId >= 0;
      assert(isToken || ending !== undefined, `Row ${row.sequenceId} yields a token`);
      return { row, tokenId, ending };
    });
    assert(sampledTokens.length === sampledCount, "Every sampled token belongs to a row");
    return outcomes;
  }
}
