/** Alternatives, optional parts and counts, multiplied: words of public tokenizers have fewer than a hundred. */
const WAYS_MAX = 1_000;
/** A part that may come more often counts as one of any length. */
const COUNT_MAX = 64;
const DEPTH_MAX = 32;

const PREFIX = /^\?(?:[=!>:]|<[=!]|<\w+>|[a-z]*(?:-[a-z]+)?:)/;
const ESCAPE = /^\\(?:[pPxuo]\{[^}]*\}|k<[^>]*>|[^])/u;
const COUNT = /^\{(\d*)(,?)(\d*)\}/;

/** What an alternative, or a part of one, costs who finds that it does not match after all. */
interface Cost {
  /** Parts of any length that a match of it may go through. */
  readonly loops: number;
  /** Of these the most that come before a part which must match: each multiplies the work by the text's length. */
  readonly triedLoops: number;
  /** In how many ways it may match besides. */
  readonly ways: number;
  readonly mustMatch: boolean;
}

const NOTHING: Cost = { loops: 0, triedLoops: 0, ways: 1, mustMatch: false };
const CHARACTER: Cost = { loops: 0, triedLoops: 0, ways: 1, mustMatch: true };

/**
 * Says why a pattern of a tokenizer's file may take more work than the square of a text's length, or
 * `undefined`. Patterns come from a stranger, and a matcher that goes back may take years for thirty letters.
 *
 * What words are cut by needs no more than this allows: no group that is repeated, no reference to one, and
 * in an alternative one part of any length, at most, before the last part that must match. It knows nothing
 * of characters, so that it refuses some patterns that would do no harm.
 */
export function patternFault(pattern: string): string | undefined {
  try {
    const { triedLoops, ways } = new PatternReader(pattern).read();
    if (triedLoops > 1) return "several parts of any length before one that must match";
    return ways > WAYS_MAX ? `more than ${WAYS_MAX} ways to match` : undefined;
  } catch (error) {
    if (error instanceof PatternFault) return error.message;
    throw error;
  }
}

class PatternFault extends Error {}

class PatternReader {
  #rest: string;
  #depth = 0;

  constructor(pattern: string) {
    this.#rest = pattern;
  }

  read(): Cost {
    const cost = this.#alternatives();
    if (this.#rest !== "") throw new PatternFault("a group that ends before it begins");
    return cost;
  }

  #alternatives(): Cost {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) throw new PatternFault("groups nested too deeply");
    let cost = this.#sequence();
    while (this.#take("|") !== "") {
      const other = this.#sequence();
      cost = {
        loops: Math.max(cost.loops, other.loops),
        triedLoops: Math.max(cost.triedLoops, other.triedLoops),
        ways: cost.ways + other.ways,
        mustMatch: cost.mustMatch || other.mustMatch,
      };
    }
    this.#depth -= 1;
    return cost;
  }

  #sequence(): Cost {
    let cost = NOTHING;
    while (this.#rest !== "" && !this.#rest.startsWith("|") && !this.#rest.startsWith(")")) {
      const part = this.#part();
      // What may be left out is no reason to go back to what came before it.
      const before = part.mustMatch ? cost.loops : 0;
      cost = {
        loops: cost.loops + part.loops,
        triedLoops: Math.max(cost.triedLoops, before + part.triedLoops),
        ways: cost.ways * part.ways,
        mustMatch: cost.mustMatch || part.mustMatch,
      };
    }
    return cost;
  }

  #part(): Cost {
    if (this.#take("(") === "") {
      this.#character();
      return this.#repeated(CHARACTER, false);
    }
    const prefix = this.#take(PREFIX);
    const inner = this.#alternatives();
    if (this.#take(")") === "") throw new PatternFault("a group without an end");
    const isLook = /^\?<?[=!]/.test(prefix);
    return this.#repeated(isLook ? { ...inner, mustMatch: true } : inner, true);
  }

  #character(): void {
    if (this.#rest.startsWith("[")) return this.#class();
    const escape = this.#take(ESCAPE);
    if (/^\\(?:[1-9]|k<)/.test(escape)) throw new PatternFault("a reference to a group");
    if (escape === "") this.#rest = this.#rest.slice(1);
  }

  /** Sets of characters may hold others. */
  #class(): void {
    let depth = 0;
    do {
      if (this.#take(ESCAPE) !== "") continue;
      if (this.#rest === "") throw new PatternFault("a set of characters without an end");
      if (this.#rest.startsWith("[")) depth += 1;
      if (this.#rest.startsWith("]")) depth -= 1;
      this.#rest = this.#rest.slice(1);
    } while (depth > 0);
  }

  #repeated(part: Cost, isGroup: boolean): Cost {
    const found = this.#take(/^[*+?]/) || this.#take(COUNT);
    if (found === "") return part;
    // Possessive or lazy: neither makes it more.
    this.#take(/^[?+]/);
    if (/^[*+?]/.test(this.#rest) || COUNT.test(this.#rest)) {
      throw new PatternFault("a part that is repeated twice over");
    }
    const [min, max] = timesOf(found);
    if (isGroup && max > 1) throw new PatternFault("a group that is repeated");
    const mustMatch = part.mustMatch && min > 0;
    if (max > COUNT_MAX) return { ...part, loops: 1, mustMatch };
    return { ...part, ways: part.ways * (max - min + 1), mustMatch };
  }

  /** Takes what comes next if it is this, or else nothing. */
  #take(wanted: string | RegExp): string {
    const found =
      typeof wanted === "string"
        ? this.#rest.startsWith(wanted) && wanted
        : wanted.exec(this.#rest)?.[0];
    if (found === false || found === undefined) return "";
    this.#rest = this.#rest.slice(found.length);
    return found;
  }
}

function timesOf(quantifier: string): readonly [min: number, max: number] {
  if (quantifier === "?") return [0, 1];
  if (quantifier === "*") return [0, Infinity];
  if (quantifier === "+") return [1, Infinity];
  const [, min = "", comma = "", max = ""] = COUNT.exec(quantifier) ?? [];
  if (comma === "") return [Number(min), Number(min)];
  return [Number(min), max === "" ? Infinity : Number(max)];
}
