import { SchemaFault } from "./schema-fault.ts";

/** Longer grammars are no answer format but a way to spend our time. */
const GRAMMAR_CHARACTERS_MAX = 256 * 1024;
/**
 * Every count of a repetition is a state of its own, for which the grammar library looks at the
 * whole vocabulary: about 1.5 ms each with 4,096 tokens.
 */
const REPETITIONS_MAX = 500;

/**
 * Collects the rules of one grammar in the library's EBNF.
 *
 * A rule ends with what closes it, such as the quote of a string, wherever it can: the library knows
 * beforehand which tokens fit inside a rule, and tries at run time those that reach beyond its end.
 */
export class GrammarWriter {
  readonly #bodies = new Map<string, string>();
  #characters = 0;
  #repetitions = 0;

  /** Adds a rule and returns its name. */
  rule(body: string): string {
    const name = this.reserve();
    this.define(name, body);
    return name;
  }

  /** A name for a rule that is defined later, as one that refers to itself has to be. */
  reserve(): string {
    const name = `r${this.#bodies.size}`;
    this.#bodies.set(name, "");
    return name;
  }

  /** Throws a `SchemaFault` when the grammar becomes too long. */
  define(name: string, body: string): void {
    this.#characters += name.length + body.length;
    if (this.#characters > GRAMMAR_CHARACTERS_MAX) {
      throw new SchemaFault("unsupported_value", "", "Expected a smaller schema");
    }
    this.#bodies.set(name, body);
  }

  /** A rule that many places use under one name; `body` is asked for at the first of them. */
  shared(name: string, body: () => string): string {
    if (!this.#bodies.has(name)) {
      this.#bodies.set(name, "");
      this.define(name, body());
    }
    return name;
  }

  /** Counts repetitions against their bound; throws a `SchemaFault` beyond it. */
  spend(repetitions: number, path: string): void {
    this.#repetitions += repetitions;
    if (this.#repetitions > REPETITIONS_MAX) {
      const message = `Expected counted lengths of at most ${REPETITIONS_MAX} in all`;
      throw new SchemaFault("unsupported_value", path, message);
    }
  }

  /** The whole grammar; what it describes begins with the rule `root`. */
  toText(root: string): string {
    const rules = [...this.#bodies].map(([name, body]) => `${name} ::= ${body}`);
    return `${[`root ::= ${root}`, ...rules].join("\n")}\n`;
  }
}

/** Writes text that stands for itself. Lone surrogates have no bytes, so they must not be in it. */
export function literal(text: string): string {
  return `"${Array.from(text, escapeCharacter).join("")}"`;
}

/** Joins alternatives, so that they can stand within a sequence. */
export function anyOf(alternatives: readonly string[]): string {
  return alternatives.length === 1 ? (alternatives[0] ?? "") : `(${alternatives.join(" | ")})`;
}

function escapeCharacter(character: string): string {
  const codePoint = character.codePointAt(0) ?? 0;
  if (character === '"' || character === "\\") return `\\${character}`;
  if (codePoint >= 0x20 && codePoint < 0x7f) return character;
  return escapeCodePoint(codePoint);
}

function escapeCodePoint(codePoint: number): string {
  const hex = codePoint.toString(16);
  return codePoint > 0xffff ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
}
