/**
 * Keeps messages from forging the template's markers (the texts of special tokens).
 *
 * A template is code that trims, splits and joins what it is given, so the places where a
 * message ends up cannot be told from the rendered prompt. Instead one character of each marker,
 * its guard, is exchanged in the messages, one for one, for a stand-in that occurs nowhere else.
 * No marker can then come from a message, whatever the template does to it, unless the template
 * writes the guard itself. After the markers were found, the stand-ins are turned back.
 */
export class MarkerGuard {
  readonly #guards: readonly string[];
  /** Private-use characters in markers or template, which no stand-in may equal. */
  readonly #reserved: ReadonlySet<number>;

  /** Takes the markers and all the strings that the template's code and text hold. */
  constructor(markers: readonly string[], templateStrings: readonly string[]) {
    this.#guards = chooseGuards(markers, templateStrings);
    this.#reserved = privateUseCodePoints([...markers, ...templateStrings]);
  }

  /**
   * Chooses the stand-ins for one conversation, of which all texts must be given. Undefined if
   * they use up the 6400 private-use characters of the basic plane, as no real text does.
   */
  exchangeFor(texts: readonly string[]): Exchange | undefined {
    const used = privateUseCodePoints(texts);
    const pairs: Pair[] = [];
    let codePoint = PRIVATE_USE_FIRST;
    for (const guard of this.#guards) {
      while (used.has(codePoint) || this.#reserved.has(codePoint)) codePoint += 1;
      if (codePoint > PRIVATE_USE_LAST) return undefined;
      pairs.push({ guard, standIn: String.fromCodePoint(codePoint) });
      codePoint += 1;
    }
    return {
      protect: (text) =>
        pairs.reduce((rest, { guard, standIn }) => rest.replaceAll(guard, standIn), text),
      restore: (text) =>
        pairs.reduce((rest, { guard, standIn }) => rest.replaceAll(standIn, guard), text),
    };
  }
}

/** Puts stand-ins into the texts of one conversation and takes them out again. */
export interface Exchange {
  readonly protect: (text: string) => string;
  readonly restore: (text: string) => string;
}

interface Pair {
  readonly guard: string;
  readonly standIn: string;
}

const PRIVATE_USE_FIRST = 0xe000;
const PRIVATE_USE_LAST = 0xf8ff;
const PRIVATE_USE = /[\uE000-\uF8FF]/u;

function privateUseCodePoints(texts: readonly string[]): ReadonlySet<number> {
  const codePoints = new Set<number>();
  for (const text of texts) {
    // Almost no text has any, and this test costs a fraction of the loop.
    if (!PRIVATE_USE.test(text)) continue;
    for (let index = 0; index < text.length; index += 1) {
      const codeUnit = text.charCodeAt(index);
      if (codeUnit >= PRIVATE_USE_FIRST && codeUnit <= PRIVATE_USE_LAST) codePoints.add(codeUnit);
    }
  }
  return codePoints;
}

/**
 * Prefers a guard that the template holds in no string of its own, so that one that looks for
 * `</think>` in a message still finds it.
 */
function chooseGuards(markers: readonly string[], templateStrings: readonly string[]): string[] {
  const longestFirst = markers.toSorted((a, b) => b.length - a.length);
  const unmarked = longestFirst.reduce(
    (text, marker) => text.replaceAll(marker, ""),
    templateStrings.join("\n"),
  );
  const guards = new Set<string>();
  for (const marker of markers) {
    const characters = Array.from(marker);
    if (characters.some((character) => guards.has(character))) continue;
    const candidates = characters.filter((character) => !/[\p{L}\p{N}\s]/u.test(character));
    const guard =
      candidates.find((character) => !unmarked.includes(character)) ??
      candidates[0] ??
      characters[0];
    if (guard !== undefined) guards.add(guard);
  }
  return [...guards];
}
