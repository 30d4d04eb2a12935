import { ALL_CHARACTERS, type CharacterRange, CharacterSet, characters } from "./character-set.ts";
import { SchemaFault } from "./schema-fault.ts";

/** A regular expression without anchors, captures and assertions: only what text it matches. */
export type Pattern =
  | { readonly kind: "set"; readonly set: CharacterSet }
  | { readonly kind: "sequence"; readonly parts: readonly Pattern[] }
  | { readonly kind: "choice"; readonly alternatives: readonly Pattern[] }
  | {
      readonly kind: "repeat";
      readonly part: Pattern;
      readonly min: number;
      readonly max: number | undefined;
    };

const DEPTH_MAX = 32;

/**
 * Parses a pattern of ECMA-262. Throws a `SchemaFault` if it is broken, or uses more than
 * alternatives, groups, classes, quantifiers, and anchors at its two ends.
 */
export function parsePattern(source: string, path: string): Pattern {
  if (!isRegularExpression(source)) {
    throw new SchemaFault("invalid_value", path, "Expected a regular expression");
  }
  return new PatternParser(source, path).parse();
}

/** Most patterns are written for the mode without flags, in which `\-` is a hyphen. */
function isRegularExpression(source: string): boolean {
  return ["u", ""].some((flags) => {
    try {
      return new RegExp(source, flags).source !== undefined;
    } catch {
      return false;
    }
  });
}

const DIGITS = new CharacterSet([[0x30, 0x39]]);
const WORD_CHARACTERS = new CharacterSet([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);
const SPACES = characters(" \t\n\r\v\f\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff").union(
  new CharacterSet([[0x2000, 0x200a]]),
);
const LINE_ENDS = characters("\n\r\u2028\u2029");
const CLASSES: ReadonlyMap<string, CharacterSet> = new Map([
  ["d", DIGITS],
  ["D", ALL_CHARACTERS.minus(DIGITS)],
  ["w", WORD_CHARACTERS],
  ["W", ALL_CHARACTERS.minus(WORD_CHARACTERS)],
  ["s", SPACES],
  ["S", ALL_CHARACTERS.minus(SPACES)],
]);
const CONTROLS: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
  ["f", "\f"],
  ["0", "\0"],
]);
/** Escapes that stand for no character: word borders, properties, references, control letters. */
const NOT_SUPPORTED = /^[1-9bBckpP]$/;

class PatternParser {
  readonly #source: readonly string[];
  readonly #path: string;
  #at = 0;
  #depth = 0;

  constructor(source: string, path: string) {
    this.#source = Array.from(source);
    this.#path = path;
  }

  parse(): Pattern {
    const pattern = this.#choice();
    if (this.#at < this.#source.length) throw this.#unsupported(`'${this.#peek()}' here`);
    return pattern;
  }

  #choice(): Pattern {
    const alternatives = [this.#sequence()];
    while (this.#take("|")) alternatives.push(this.#sequence());
    return alternatives.length === 1 && alternatives[0] !== undefined
      ? alternatives[0]
      : { kind: "choice", alternatives };
  }

  #sequence(): Pattern {
    const parts: Pattern[] = [];
    // The whole string has to match in any case, so anchors at the ends say nothing more.
    if (this.#depth === 0) this.#take("^");
    for (let next = this.#peek(); next !== undefined; next = this.#peek()) {
      if (next === "|" || next === ")") break;
      if (next === "$" && this.#depth === 0) {
        this.#at += 1;
        const behind = this.#peek();
        if (behind === undefined || behind === "|") break;
        throw this.#unsupported("'$' before the end");
      }
      parts.push(this.#repeat(this.#atom()));
    }
    return { kind: "sequence", parts };
  }

  #atom(): Pattern {
    if (this.#take("(")) return this.#group();
    if (this.#take("[")) return { kind: "set", set: this.#class() };
    if (this.#take(".")) return { kind: "set", set: ALL_CHARACTERS.minus(LINE_ENDS) };
    if (this.#take("\\")) return { kind: "set", set: this.#escape() };
    const next = this.#peek() ?? "";
    if (next === "^" || next === "$") throw this.#unsupported(`'${next}' inside`);
    this.#at += 1;
    return { kind: "set", set: characters(next) };
  }

  #group(): Pattern {
    if (this.#take("?")) {
      const isNamed = /^<[^=!]/.test(this.#source.slice(this.#at, this.#at + 2).join(""));
      if (isNamed) this.#at = this.#source.indexOf(">", this.#at) + 1;
      else if (!this.#take(":")) throw this.#unsupported("a group with '?'");
    }
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) throw this.#unsupported("groups so deep");
    const pattern = this.#choice();
    this.#take(")");
    this.#depth -= 1;
    return pattern;
  }

  #repeat(part: Pattern): Pattern {
    const counts = this.#quantifier();
    if (counts === undefined) return part;
    // How eagerly a quantifier takes text does not change what text there can be.
    this.#take("?");
    return { kind: "repeat", part, ...counts };
  }

  #quantifier(): { min: number; max: number | undefined } | undefined {
    if (this.#take("*")) return { min: 0, max: undefined };
    if (this.#take("+")) return { min: 1, max: undefined };
    if (this.#take("?")) return { min: 0, max: 1 };
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(
      this.#source.slice(this.#at, this.#at + 24).join(""),
    );
    if (counted === null) return undefined;
    this.#at += counted[0].length;
    const min = Number(counted[1]);
    if (counted[2] === "") return { min, max: min };
    return { min, max: counted[3] === "" ? undefined : Number(counted[3]) };
  }

  #class(): CharacterSet {
    const isNegated = this.#take("^");
    const ranges: CharacterRange[] = [];
    while (!this.#take("]")) {
      const first = this.#classAtom();
      const isRange = this.#peek() === "-" && this.#source[this.#at + 1] !== "]";
      if (isRange) this.#at += 1;
      const part = isRange ? this.#range(first, this.#classAtom()) : first;
      ranges.push(...part.ranges);
    }
    const set = new CharacterSet(ranges);
    return isNegated ? ALL_CHARACTERS.minus(set) : set;
  }

  #range(first: CharacterSet, last: CharacterSet): CharacterSet {
    const [from, to] = [first.ranges[0], last.ranges[0]];
    const isPair = from?.[0] === from?.[1] && to?.[0] === to?.[1];
    if (from === undefined || to === undefined || !isPair) throw this.#unsupported("such a range");
    return new CharacterSet([[from[0], to[0]]]);
  }

  #classAtom(): CharacterSet {
    const next = this.#source[this.#at];
    this.#at += 1;
    return next === "\\" ? this.#escape() : characters(next ?? "");
  }

  #escape(): CharacterSet {
    const next = this.#source[this.#at] ?? "";
    this.#at += 1;
    const known = CLASSES.get(next);
    if (known !== undefined) return known;
    const control = CONTROLS.get(next);
    if (control !== undefined) return characters(control);
    if (NOT_SUPPORTED.test(next)) throw this.#unsupported(`'\\${next}'`);
    if (next !== "x" && next !== "u") return characters(next);
    const rest = this.#source.slice(this.#at, this.#at + 10).join("");
    const hex = /^\{([0-9a-f]+)\}/i.exec(rest) ?? (next === "x" ? HEX_2 : HEX_4).exec(rest);
    if (hex === null) throw this.#unsupported(`'\\${next}' without digits`);
    this.#at += hex[0].length;
    const codePoint = Number.parseInt(hex[1] ?? "", 16);
    return new CharacterSet([[codePoint, codePoint]]);
  }

  #peek(): string | undefined {
    return this.#source[this.#at];
  }

  #take(character: string): boolean {
    if (this.#source[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #unsupported(what: string): SchemaFault {
    return new SchemaFault("unsupported_value", this.#path, `Expected a pattern without ${what}`);
  }
}

const HEX_2 = /^([0-9a-f]{2})/i;
const HEX_4 = /^([0-9a-f]{4})/i;
