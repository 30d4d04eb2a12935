import { unreachable } from "../../../src/base/assert.ts";
import { PLAIN_CHARACTERS } from "./character-set.ts";
import { type GrammarWriter, literal } from "./grammar-writer.ts";
import { parsePattern, type Pattern } from "./pattern-syntax.ts";
import { SchemaFault } from "./schema-fault.ts";

/**
 * The JSON strings that a pattern matches from their beginning to their end, quotes included.
 *
 * A class stands for those of its characters that need no escape; a quote or a backslash has to be
 * written as itself in the pattern. Throws a `SchemaFault` for what it cannot say.
 */
export function patternString(writer: GrammarWriter, source: string, path: string): string {
  const pattern = parsePattern(source, path);
  writer.spend(sizeOf(pattern), path);
  const rules = new PatternRules(writer, path);
  return `"\\"" ${rules.before(pattern, writer.rule('"\\""'))}`;
}

/** How many characters of the text the grammar tells apart. */
function sizeOf(pattern: Pattern): number {
  switch (pattern.kind) {
    case "set":
      return 1;
    case "sequence":
      return pattern.parts.reduce((sum, part) => sum + sizeOf(part), 0);
    case "choice":
      return pattern.alternatives.reduce((sum, part) => sum + sizeOf(part), 0);
    case "repeat":
      return sizeOf(pattern.part) * Math.max(pattern.max ?? pattern.min, 1);
  }
  return unreachable(pattern);
}

function canBeEmpty(pattern: Pattern): boolean {
  switch (pattern.kind) {
    case "set":
      return false;
    case "sequence":
      return pattern.parts.every(canBeEmpty);
    case "choice":
      return pattern.alternatives.some(canBeEmpty);
    case "repeat":
      return pattern.min === 0 || canBeEmpty(pattern.part);
  }
  return unreachable(pattern);
}

/** Writes a pattern from its end to its beginning: each rule goes on to the end of the string. */
class PatternRules {
  readonly #writer: GrammarWriter;
  readonly #path: string;

  constructor(writer: GrammarWriter, path: string) {
    this.#writer = writer;
    this.#path = path;
  }

  /** The rule for a text of the pattern and then one of the rule `next`. */
  before(pattern: Pattern, next: string): string {
    switch (pattern.kind) {
      case "set":
        return this.#set(pattern, next);
      case "sequence":
        return pattern.parts.reduceRight((rest, part) => this.before(part, rest), next);
      case "choice": {
        const rules = pattern.alternatives.map((part) => this.before(part, next));
        return this.#writer.rule(rules.join(" | "));
      }
      case "repeat":
        return this.#repeat(pattern, next);
    }
    return unreachable(pattern);
  }

  #repeat(repeat: Extract<Pattern, { kind: "repeat" }>, next: string): string {
    const { part, min, max } = repeat;
    if (canBeEmpty(part)) throw this.#unsupported("repeats only what is not empty");
    let rest = next;
    if (max === undefined) {
      rest = this.#writer.reserve();
      this.#writer.define(rest, `${next} | ${this.before(part, rest)}`);
    }
    for (let count = (max ?? min) - 1; count >= 0; count -= 1) {
      const more = this.before(part, rest);
      rest = count >= min ? this.#writer.rule(`${next} | ${more}`) : more;
    }
    return rest;
  }

  #set({ set }: Extract<Pattern, { kind: "set" }>, next: string): string {
    const [first] = set.ranges;
    const isOne = set.ranges.length === 1 && first !== undefined && first[0] === first[1];
    if (isOne) {
      const character = JSON.stringify(String.fromCodePoint(first[0])).slice(1, -1);
      return this.#writer.rule(`${literal(character)} ${next}`);
    }
    const plain = set.minus(set.minus(PLAIN_CHARACTERS));
    if (plain.isEmpty) {
      throw this.#unsupported("has in each class a character that needs no escape in JSON");
    }
    return this.#writer.rule(plain.toAlternatives(next).join(" | "));
  }

  #unsupported(what: string): SchemaFault {
    return new SchemaFault("unsupported_value", this.#path, `Expected a pattern that ${what}`);
  }
}
