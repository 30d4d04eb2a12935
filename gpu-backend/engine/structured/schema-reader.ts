import { SchemaFault } from "./schema-fault.ts";

/** Keywords that say nothing about what is valid. */
const ANNOTATIONS = new Set([
  "$comment",
  "$schema",
  "default",
  "deprecated",
  "description",
  "examples",
  "readOnly",
  "title",
  "writeOnly",
]);
/** Keywords that are supported somewhere, though not everywhere. */
const SUPPORTED = new Set(
  (
    "$ref additionalProperties allOf anyOf const enum exclusiveMaximum exclusiveMinimum format items " +
    "maxItems maxLength maximum minItems minLength minimum pattern prefixItems properties required type"
  ).split(" "),
);
/** Places that references point to; they are read when one does. */
const DEFINITIONS = new Set(["$defs", "definitions"]);
/** Where a schema stands deeper, it is no format of an answer any more. */
const DEPTH_MAX = 32;
const NAME_CHARACTERS_MAX = 40;

/**
 * Reads one schema object keyword by keyword, and knows which were asked for: what nobody asked for
 * is not supported, so that no keyword is ever passed over.
 */
export class SchemaReader {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly path: string;
  readonly depth: number;

  /** Throws a `SchemaFault` unless `schema` is an object, and where it nests too deep. */
  constructor(schema: unknown, path: string, depth: number) {
    if (!isRecord(schema)) throw new SchemaFault("invalid_value", path, "Expected a schema object");
    if (depth > DEPTH_MAX) {
      const message = `Expected a schema of at most ${DEPTH_MAX} levels`;
      throw new SchemaFault("unsupported_value", path, message);
    }
    this.schema = schema;
    this.path = path;
    this.depth = depth;
  }

  has(keyword: string): boolean {
    return Object.hasOwn(this.schema, keyword);
  }

  hasAny(keywords: readonly string[]): boolean {
    return keywords.some((keyword) => this.has(keyword));
  }

  value(keyword: string): unknown {
    return this.has(keyword) ? this.schema[keyword] : undefined;
  }

  /** A length or number of parts. */
  count(keyword: string): number | undefined {
    const value = this.number(keyword);
    if (value === undefined) return undefined;
    if (!Number.isSafeInteger(value) || value < 0) throw this.invalid(keyword, "a whole number");
    return value;
  }

  number(keyword: string): number | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (typeof value !== "number") throw this.invalid(keyword, "a number");
    return value;
  }

  string(keyword: string): string | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (typeof value !== "string") throw this.invalid(keyword, "a string");
    return value;
  }

  list(keyword: string): readonly unknown[] | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.invalid(keyword, "a list");
    return value;
  }

  /** The members of an object of schemas. */
  members(keyword: string): readonly (readonly [string, unknown])[] | undefined {
    const value = this.value(keyword);
    if (value === undefined) return undefined;
    if (!isRecord(value)) throw this.invalid(keyword, "an object of schemas");
    return Object.entries(value);
  }

  /** Throws a `SchemaFault` for the first keyword beside these that says what is valid. */
  refuseOthers(supported: readonly string[], where: string): void {
    for (const keyword of Object.keys(this.schema)) {
      if (supported.includes(keyword) || ANNOTATIONS.has(keyword)) continue;
      if (DEFINITIONS.has(keyword)) continue;
      throw this.unsupported(keyword, where);
    }
  }

  /** The place of a keyword, or of a name below it. What a client chose is cut to a bounded length. */
  pathOf(...names: readonly string[]): string {
    return [this.path, ...names.map((name) => name.slice(0, NAME_CHARACTERS_MAX))].join(".");
  }

  invalid(keyword: string, expected: string): SchemaFault {
    const message = `Expected the schema keyword '${keyword}' to be ${expected}`;
    return new SchemaFault("invalid_value", this.pathOf(keyword), message);
  }

  unsupported(keyword: string, where: string): SchemaFault {
    const name = keyword.slice(0, NAME_CHARACTERS_MAX);
    const place = SUPPORTED.has(keyword) ? ` ${where}` : "";
    const message = `The schema keyword '${name}' is not supported${place}`;
    return new SchemaFault("unsupported_value", this.pathOf(keyword), message);
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
