/** What may be sent of the text so far, and whether a stop string has ended it. */
export interface StopResult {
  readonly text: string;
  readonly stopped: boolean;
}

/**
 * Ends an answer at the first stop string in its text and keeps that string out of it.
 *
 * Text that could still become a stop string is held back, and nothing else. The string that is
 * complete first wins, among several the one listed first, however the text was cut into pieces.
 * With `isIncluded` the string stays in the text, and nothing is held back at all. Costs
 * O(characters × stop strings).
 */
export class StopStrings {
  readonly #matchers: readonly Matcher[];
  readonly #isIncluded: boolean;
  #held = "";
  #stopped = false;

  /** Takes non-empty, well-formed strings; the text pieces must hold whole characters. */
  constructor(stops: readonly string[], options: { readonly isIncluded?: boolean } = {}) {
    this.#matchers = stops.map((stop) => new Matcher(stop));
    this.#isIncluded = options.isIncluded ?? false;
  }

  /**
   * Takes the next piece of text. Once stopped, all further text is dropped. A string that is
   * completed in an exempt piece does not stop the text and stays in it.
   */
  push(text: string, isExempt = false): StopResult {
    if (this.#stopped) return { text: "", stopped: true };
    const candidate = this.#held + text;
    for (let index = this.#held.length; index < candidate.length; index += 1) {
      const completed = this.#advance(candidate.charCodeAt(index));
      if (completed === undefined) continue;
      if (isExempt) {
        for (const matcher of this.#matchers) matcher.forgetWhole();
        continue;
      }
      this.#stopped = true;
      this.#held = "";
      const end = index + 1 - (this.#isIncluded ? 0 : completed.stop.length);
      return { text: candidate.slice(0, end), stopped: true };
    }
    const heldLength = this.#isIncluded ? 0 : this.#longestMatch();
    const sentLength = candidate.length - heldLength;
    this.#held = candidate.slice(sentLength);
    return { text: candidate.slice(0, sentLength), stopped: false };
  }

  /** Returns what was held back when no text follows; it never became a stop string. */
  end(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  #longestMatch(): number {
    return this.#matchers.reduce((max, matcher) => Math.max(max, matcher.matched), 0);
  }

  #advance(codeUnit: number): Matcher | undefined {
    for (const matcher of this.#matchers) matcher.advance(codeUnit);
    return this.#matchers.find((matcher) => matcher.matched === matcher.stop.length);
  }
}

/** Knuth-Morris-Pratt: how much of one stop string the end of the text matches. */
class Matcher {
  readonly stop: string;
  #matched = 0;
  /** For each length matched, the longest shorter beginning that ends there as well. */
  readonly #fallbacks: Int32Array;

  constructor(stop: string) {
    this.stop = stop;
    this.#fallbacks = new Int32Array(stop.length + 1);
    for (let length = 1, shorter = 0; length < stop.length; length += 1) {
      shorter = this.#extend(shorter, stop.charCodeAt(length));
      this.#fallbacks[length + 1] = shorter;
    }
  }

  /** Length of the longest beginning of the stop string that ends the text. */
  get matched(): number {
    return this.#matched;
  }

  advance(codeUnit: number): void {
    this.#matched = this.#extend(this.#matched, codeUnit);
  }

  /** Gives up a match of the whole string for the longest shorter one that ends there as well. */
  forgetWhole(): void {
    if (this.#matched === this.stop.length) this.#matched = this.#fallbacks[this.#matched] ?? 0;
  }

  #extend(matched: number, codeUnit: number): number {
    let length = matched;
    while (length > 0 && this.stop.charCodeAt(length) !== codeUnit) {
      length = this.#fallbacks[length] ?? 0;
    }
    return this.stop.charCodeAt(length) === codeUnit ? length + 1 : 0;
  }
}
