/** Code points from `first` to `last`, both included. */
export type CharacterRange = readonly [first: number, last: number];

const CODE_POINT_MAX = 0x10ffff;
/** Halves of characters have no bytes in UTF-8. */
const SURROGATES: CharacterRange = [0xd800, 0xdfff];

/** A set of characters, as ranges in ascending order that neither touch nor overlap. */
export class CharacterSet {
  readonly ranges: readonly CharacterRange[];

  constructor(ranges: readonly CharacterRange[]) {
    const merged: [number, number][] = [];
    for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
      const previous = merged.at(-1);
      if (previous !== undefined && first <= previous[1] + 1) {
        previous[1] = Math.max(previous[1], last);
      } else merged.push([first, last]);
    }
    this.ranges = merged;
  }

  union(other: CharacterSet): CharacterSet {
    return new CharacterSet([...this.ranges, ...other.ranges]);
  }

  /** What is in this set and not in `other`. */
  minus(other: CharacterSet): CharacterSet {
    return new CharacterSet(
      other.ranges.reduce<CharacterRange[]>(
        (rest, [cutFirst, cutLast]) =>
          rest.flatMap(([first, last]) => {
            const before: CharacterRange = [first, Math.min(last, cutFirst - 1)];
            const behind: CharacterRange = [Math.max(first, cutLast + 1), last];
            return [before, behind].filter(([from, to]) => from <= to);
          }),
        [...this.ranges],
      ),
    );
  }

  has(character: string): boolean {
    const codePoint = character.codePointAt(0) ?? -1;
    return this.ranges.some(([first, last]) => first <= codePoint && codePoint <= last);
  }

  get isEmpty(): boolean {
    return this.ranges.length === 0;
  }

  /**
   * The set in the grammar's words: for the library a class is one of bytes, so that a character of
   * several bytes is a sequence of classes. Each alternative ends with `next`.
   */
  toAlternatives(next: string): string[] {
    const sequences = this.ranges.flatMap(([first, last]) => byteSequences(first, last));
    const single = sequences.filter((sequence) => sequence.length === 1).flat();
    const others = sequences.filter((sequence) => sequence.length > 1);
    const classes = others.map((sequence) => sequence.map((range) => toClass([range])).join(" "));
    if (single.length > 0) classes.unshift(toClass(single));
    return classes.map((text) => `${text} ${next}`);
  }
}

function toClass(ranges: readonly CharacterRange[]): string {
  const parts = ranges.map(([first, last]) =>
    first === last ? byteEscape(first) : `${byteEscape(first)}-${byteEscape(last)}`,
  );
  const [first, ...others] = ranges;
  // A class of one byte the library takes for the character of that number, and writes it in UTF-8.
  // With a second byte, of which no token is, it stays a class.
  const isOneByte = first !== undefined && first[0] === first[1] && others.length === 0;
  if (isOneByte && first[0] > ASCII_MAX) parts.push(byteEscape(NEVER_A_BYTE));
  return `[${parts.join("")}]`;
}

function byteEscape(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, "0")}`;
}

const ASCII_MAX = 0x7f;
/** A byte that UTF-8 has no use for, see `shareVocabulary`. */
const NEVER_A_BYTE = 0xff;

/** The last code points whose UTF-8 has one, two and three bytes. */
const LAST_OF_LENGTH = [ASCII_MAX, 0x7ff, 0xffff];
const CONTINUATION_BITS = 6;

/** The UTF-8 of a range, as sequences in each of which every byte runs over a range of its own. */
function byteSequences(first: number, last: number): (readonly CharacterRange[])[] {
  const splitAt = splitPoint(first, last);
  if (splitAt !== undefined) {
    return [...byteSequences(first, splitAt), ...byteSequences(splitAt + 1, last)];
  }
  const [low, high] = [
    UTF8.encode(String.fromCodePoint(first)),
    UTF8.encode(String.fromCodePoint(last)),
  ];
  return [Array.from(low, (byte, index): CharacterRange => [byte, high[index] ?? byte])];
}

/** Where a range has to be cut so that no byte's range depends on those before it. */
function splitPoint(first: number, last: number): number | undefined {
  const border = LAST_OF_LENGTH.find((value) => first <= value && value < last);
  if (border !== undefined) return border;
  if (last <= ASCII_MAX) return undefined;
  for (let bits = CONTINUATION_BITS; bits <= 3 * CONTINUATION_BITS; bits += CONTINUATION_BITS) {
    const low = 2 ** bits - 1;
    if (first >>> bits === last >>> bits) return undefined;
    if ((first & low) !== 0) return first | low;
    if ((last & low) !== low) return ((last >>> bits) << bits) - 1;
  }
  return undefined;
}

const UTF8 = new TextEncoder();

export function characters(text: string): CharacterSet {
  return new CharacterSet(
    Array.from(text, (character): CharacterRange => {
      const codePoint = character.codePointAt(0) ?? 0;
      return [codePoint, codePoint];
    }),
  );
}

/** Every character that UTF-8 can write. */
export const ALL_CHARACTERS = new CharacterSet([[0, CODE_POINT_MAX]]).minus(
  new CharacterSet([SURROGATES]),
);

/** Characters that stand for themselves in a JSON string. */
export const PLAIN_CHARACTERS = ALL_CHARACTERS.minus(
  new CharacterSet([[0, 0x1f]]).union(characters('"\\')),
);
