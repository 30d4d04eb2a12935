/** Totals of what was guessed and what of it held. */
export interface DraftStatistics {
  /** Rows that had drafts. */
  readonly drafts: number;
  readonly draftTokens: number;
  readonly acceptedTokens: number;
  /** How many drafts held at their first place, at their second, and so on. */
  readonly acceptedByPlace: readonly number[];
}

/** Counts drafts of committed steps. */
export class DraftCounter {
  #drafts = 0;
  #draftTokens = 0;
  #acceptedTokens = 0;
  readonly #acceptedByPlace: number[];

  constructor(draftTokensMax: number) {
    this.#acceptedByPlace = Array.from({ length: draftTokensMax }, () => 0);
  }

  get statistics(): DraftStatistics {
    return {
      drafts: this.#drafts,
      draftTokens: this.#draftTokens,
      acceptedTokens: this.#acceptedTokens,
      acceptedByPlace: [...this.#acceptedByPlace],
    };
  }

  /** One row, of whose drafts the first so many held. */
  count(draftTokens: number, acceptedTokens: number): void {
    this.#drafts += 1;
    this.#draftTokens += draftTokens;
    this.#acceptedTokens += acceptedTokens;
    for (let place = 0; place < acceptedTokens; place++) {
      this.#acceptedByPlace[place] = (this.#acceptedByPlace[place] ?? 0) + 1;
    }
  }
}

/** Of an engine that guesses nothing. */
export const NO_DRAFTS: DraftStatistics = {
  drafts: 0,
  draftTokens: 0,
  acceptedTokens: 0,
  acceptedByPlace: [],
};
