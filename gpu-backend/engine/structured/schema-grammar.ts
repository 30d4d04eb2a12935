import { unreachable } from "../../../src/base/assert.ts";
import type { Problem } from "../../../src/protocol/errors.ts";
import { arrayGrammar, objectGrammar } from "./container-grammar.ts";
import { checkRecursion } from "./check-recursion.ts";
import { GrammarWriter, literal } from "./grammar-writer.ts";
import {
  anyArray,
  anyInteger,
  anyNumber,
  anyObject,
  anyString,
  anyValue,
  writeJson,
} from "./json-grammar.ts";
import { type Bounds, numbers, wholeNumbers } from "./number-grammar.ts";
import { resolveReference } from "./resolve-reference.ts";
import { SchemaFault } from "./schema-fault.ts";
import { SchemaReader } from "./schema-reader.ts";
import { stringGrammar } from "./string-grammar.ts";

/** The keywords that are about values of one type. */
const KEYWORDS = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  boolean: [],
  null: [],
} as const satisfies Record<string, readonly string[]>;

type TypeName = keyof typeof KEYWORDS;

/** Beyond it alternatives are data, and no format of an answer. */
const ALTERNATIVES_MAX = 1000;
/** Each is at least a rule, for which the grammar library looks at the whole vocabulary. */
const SCHEMAS_MAX = 2000;

/**
 * Says what of a JSON schema cannot be kept, or nothing if all of it can. `param` is the place of the
 * schema in the request; the problem's own leads on from there.
 */
export function checkSchema(schema: unknown, param: string): Problem | undefined {
  try {
    addSchema(new GrammarWriter(), schema, param);
    return undefined;
  } catch (error) {
    if (!(error instanceof SchemaFault)) throw error;
    return { code: error.code, message: error.message, param: error.path || param };
  }
}

/**
 * Adds the rules for the JSON texts that a schema allows, and returns the name of their first. What it
 * writes is always valid, but it does not write all that is: members stand in the order of
 * `properties`, and no others unless the schema asks for them. Throws a `SchemaFault` for
 * anything that it does not support.
 */
export function addSchema(writer: GrammarWriter, schema: unknown, path: string): string {
  const rule = new SchemaConverter(writer, schema, path).convert();
  checkRecursion(schema, path);
  return rule;
}

class SchemaConverter {
  readonly #writer: GrammarWriter;
  readonly #root: unknown;
  readonly #path: string;
  /** The rule of each schema that was referred to; a schema may refer to itself. */
  readonly #rules = new Map<unknown, string>();
  #schemas = 0;

  constructor(writer: GrammarWriter, root: unknown, path: string) {
    this.#writer = writer;
    this.#root = root;
    this.#path = path;
  }

  convert(): string {
    return this.#rule(this.#root, this.#path, 0);
  }

  #rule(schema: unknown, path: string, depth: number): string {
    const known = this.#rules.get(schema);
    if (known !== undefined) return known;
    this.#schemas += 1;
    if (this.#schemas > SCHEMAS_MAX) {
      const message = `Expected at most ${SCHEMAS_MAX} schemas within the whole`;
      throw new SchemaFault("unsupported_value", path, message);
    }
    const name = this.#writer.reserve();
    if (typeof schema === "object") this.#rules.set(schema, name);
    this.#writer.define(name, this.#body(schema, path, depth));
    return name;
  }

  #body(schema: unknown, path: string, depth: number): string {
    if (schema === true) return anyValue(this.#writer);
    const reader = new SchemaReader(schema, path, depth);
    if (reader.has("$ref")) return this.#reference(reader);
    if (reader.has("allOf")) return this.#soleOf(reader);
    if (reader.has("anyOf")) {
      reader.refuseOthers(["anyOf"], "beside 'anyOf'");
      const alternatives = alternativesOf(reader, "anyOf");
      return alternatives
        .map((part, index) => this.#rule(part, `${path}.anyOf[${index}]`, depth + 1))
        .join(" | ");
    }
    if (reader.hasAny(["const", "enum"])) return constants(reader);
    return this.#types(reader);
  }

  #reference(reader: SchemaReader): string {
    reader.refuseOthers(["$ref"], "beside '$ref'");
    const target = resolveReference(this.#root, reader);
    return this.#rule(target, reader.pathOf("$ref"), reader.depth + 1);
  }

  /** Generators wrap one schema in `allOf` to hang a description on it. */
  #soleOf(reader: SchemaReader): string {
    const parts = alternativesOf(reader, "allOf");
    if (parts.length > 1) throw reader.unsupported("allOf", "with more than one schema");
    reader.refuseOthers(["allOf"], "beside 'allOf'");
    return this.#rule(parts[0], `${reader.path}.allOf[0]`, reader.depth + 1);
  }

  #types(reader: SchemaReader): string {
    const types = typesOf(reader);
    if (types === undefined) {
      reader.refuseOthers([], "without 'type'");
      return anyValue(this.#writer);
    }
    const keywords = types.flatMap((type) => KEYWORDS[type]);
    reader.refuseOthers(["type", ...keywords], `for ${types.join(" or ")}`);
    return types.map((type) => this.#ofType(type, reader)).join(" | ");
  }

  #ofType(type: TypeName, reader: SchemaReader): string {
    const writer = this.#writer;
    if (type === "null") return '"null"';
    if (type === "boolean") return '"true" | "false"';
    if (!reader.hasAny(KEYWORDS[type])) return UNBOUNDED[type](writer);
    switch (type) {
      case "string":
        return stringGrammar(writer, reader);
      case "integer":
      case "number":
        return numberGrammar(reader, type);
      case "object":
        return objectGrammar(writer, reader, (schema, path) => this.#part(schema, path, reader));
      case "array":
        return arrayGrammar(writer, reader, (schema, path) => this.#part(schema, path, reader));
    }
    return unreachable(type);
  }

  #part(schema: unknown, path: string, reader: SchemaReader): string {
    return this.#rule(schema, path, reader.depth + 1);
  }
}

const UNBOUNDED = {
  object: anyObject,
  array: anyArray,
  string: anyString,
  number: anyNumber,
  integer: anyInteger,
};

function alternativesOf(reader: SchemaReader, keyword: string): readonly unknown[] {
  const alternatives = reader.list(keyword) ?? [];
  if (alternatives.length === 0) throw reader.invalid(keyword, "a list that is not empty");
  if (alternatives.length > ALTERNATIVES_MAX) {
    throw reader.unsupported(keyword, `with more than ${ALTERNATIVES_MAX} entries`);
  }
  return alternatives;
}

function constants(reader: SchemaReader): string {
  reader.refuseOthers(["const", "enum", "type"], "beside constants");
  if (reader.has("const") && reader.has("enum")) throw reader.unsupported("const", "beside 'enum'");
  const values = reader.has("const") ? [reader.value("const")] : alternativesOf(reader, "enum");
  const types = typesOf(reader);
  const fitting = values.filter((value) => types?.some((type) => isOfType(value, type)) ?? true);
  if (fitting.length === 0) throw reader.invalid("type", "that of a constant beside it");
  return fitting.map((value) => literal(writeJson(value))).join(" | ");
}

/** The types named, or the one that the keywords are about; `undefined`: any. */
function typesOf(reader: SchemaReader): readonly TypeName[] | undefined {
  if (!reader.has("type")) {
    const implied = (["object", "array", "string", "number"] as const).find((type) => {
      return reader.hasAny(KEYWORDS[type]);
    });
    return implied === undefined ? undefined : [implied];
  }
  const named = reader.value("type");
  const types: readonly unknown[] = Array.isArray(named) ? named : [named];
  if (types.length === 0 || !types.every(isTypeName) || new Set(types).size < types.length) {
    throw reader.invalid("type", `among ${Object.keys(KEYWORDS).join(", ")}`);
  }
  // A whole number is a number as well, and two ways to one text are work for nothing.
  return types.includes("number") ? types.filter((type) => type !== "integer") : types;
}

function isTypeName(value: unknown): value is TypeName {
  return typeof value === "string" && Object.hasOwn(KEYWORDS, value);
}

function isOfType(value: unknown, type: TypeName): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "string":
    case "number":
    case "boolean":
      return typeof value === type;
  }
  return unreachable(type);
}

function numberGrammar(reader: SchemaReader, type: "integer" | "number"): string {
  const bounds: Bounds = {
    min: tighter(Math.max, [wholeFrom(reader, "minimum"), wholeFrom(reader, "exclusiveMinimum")]),
    max: tighter(Math.min, [wholeTo(reader, "maximum"), wholeTo(reader, "exclusiveMaximum")]),
  };
  const grammar = type === "integer" ? wholeNumbers(bounds) : numbers(bounds);
  if (grammar !== undefined) return grammar;
  const keyword = KEYWORDS.number.find((name) => reader.has(name)) ?? "minimum";
  throw reader.invalid(keyword, "a bound that leaves a whole number of at most 15 digits");
}

function wholeFrom(reader: SchemaReader, keyword: string): number | undefined {
  const bound = reader.number(keyword);
  if (bound === undefined) return undefined;
  return keyword === "minimum" ? Math.ceil(bound) : Math.floor(bound) + 1;
}

function wholeTo(reader: SchemaReader, keyword: string): number | undefined {
  const bound = reader.number(keyword);
  if (bound === undefined) return undefined;
  return keyword === "maximum" ? Math.floor(bound) : Math.ceil(bound) - 1;
}

function tighter(
  pick: (...values: number[]) => number,
  bounds: readonly (number | undefined)[],
): number | undefined {
  const given = bounds.filter((bound) => bound !== undefined);
  return given.length === 0 ? undefined : pick(...given);
}
