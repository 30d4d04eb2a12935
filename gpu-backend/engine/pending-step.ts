import { assert } from "../../src/base/assert.ts";
import type { Batch, BatchRow } from "./batch.ts";
import type { ComputedRow, RowResult } from "./row-result.ts";

/** How a request ends that does not come to its own end. */
export type Ending =
  | { readonly kind: "cancelled" }
  | { readonly kind: "failed"; readonly message: string };

/** What a step brought one row: its result, or the end of its request. */
export type RowOutcome = ComputedRow | Ending;

/**
 * A step between its plan and its commit or rollback.
 *
 * Its rows use blocks of their requests, so whoever is cancelled in the meantime ends with the step, once,
 * and what the row yields is not looked at.
 */
export class PendingStep {
  readonly batch: Batch;
  readonly #cancelledIds = new Set<string>();

  constructor(batch: Batch) {
    this.batch = batch;
  }

  /** The requests that end with this step whatever it brings. */
  get cancelledIds(): ReadonlySet<string> {
    return this.#cancelledIds;
  }

  includes(id: string): boolean {
    return this.batch.rows.some((row) => row.sequenceId === id);
  }

  /** How many guesses of a request the step verifies. */
  draftTokensOf(id: string): number {
    const row = this.batch.rows.find(({ sequenceId }) => sequenceId === id);
    return row?.drafts?.tokenIds.length ?? 0;
  }

  /** Throws unless the requests of its rows run, and it is as large as a step may be. */
  checkInvariants(limits: {
    readonly runningIds: ReadonlySet<string>;
    readonly batchTokensMax: number;
  }): void {
    const { rows } = this.batch;
    assert(
      rows.every((row) => limits.runningIds.has(row.sequenceId)),
      "A pending step keeps the requests of its rows",
    );
    const rowTokens = rows.reduce((sum, row) => sum + row.tokens.length, 0);
    assert(rowTokens <= limits.batchTokensMax, "A step keeps to its token budget");
  }

  /** Ends a request of the batch with this step. */
  cancelWithStep(id: string): void {
    this.#cancelledIds.add(id);
  }

  /**
   * Matches results with rows: one a row, in order. A failure outranks a cancel, since its KV is not
   * kept. Throws if a row that goes on lacks what it was asked for.
   */
  outcomes(results: readonly RowResult[]): RowOutcome[] {
    const { rows } = this.batch;
    assert(results.length === rows.length, "Every row has one result");
    return results.map((result, index): RowOutcome => {
      const row = rows[index];
      assert(row !== undefined, "Results are in the order of rows");
      if (result.kind === "failed") return result;
      if (this.#cancelledIds.has(row.sequenceId)) return { kind: "cancelled" };
      checkResult(row, result);
      return result;
    });
  }
}

/** Throws unless a result has exactly what its row was asked for. */
function checkResult(row: BatchRow, result: ComputedRow): void {
  const { sequenceId, choice, drafts, scoring, output } = row;
  const { chosen, promptLogprobs, hidden } = result;
  assert((chosen !== undefined) === (choice !== undefined), `Row ${sequenceId} yields its token`);
  const draftTokens = drafts?.tokenIds.length ?? 0;
  assert(
    chosen === undefined || (chosen.length >= 1 && chosen.length <= 1 + draftTokens),
    `Row ${sequenceId} yields a token, and one more for each draft that held`,
  );
  assert(
    promptLogprobs?.length === scoring?.nextTokens.length,
    `Row ${sequenceId} yields its log probabilities`,
  );
  assert((hidden !== undefined) === (output === "hidden"), `Row ${sequenceId} yields its states`);
}
