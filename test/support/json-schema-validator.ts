import assert from "node:assert/strict";

/** A JSON schema as parsed from JSON. */
export type Schema = boolean | { readonly [keyword: string]: unknown };

/**
 * Says where a value breaks a schema, or nothing. It follows the specification keyword by keyword, in
 * other ways than the engine does, and fails on a keyword that it does not know.
 */
export function findViolation(schema: Schema, value: unknown, root = schema): string | undefined {
  if (typeof schema === "boolean") return schema ? undefined : "nothing is valid";
  for (const [keyword, operand] of Object.entries(schema)) {
    if (ANNOTATIONS.has(keyword)) continue;
    const check = CHECKS[keyword];
    assert(check !== undefined, `The validator knows '${keyword}'`);
    const violation = check(operand, value, { schema, root });
    if (violation !== undefined) return violation;
  }
  return undefined;
}

interface Place {
  readonly schema: { readonly [keyword: string]: unknown };
  readonly root: Schema;
}

/** A method, since only those may narrow the type of a parameter: each keyword has its own operand. */
interface Keyword {
  check(operand: unknown, value: unknown, place: Place): string | undefined;
}

type Check = Keyword["check"];

const ANNOTATIONS = new Set([
  "$defs",
  "definitions",
  "description",
  "title",
  "default",
  "required",
]);

const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: (text) => new Date(`${text}T00:00:00Z`).toISOString().startsWith(text),
  time: (text) => !Number.isNaN(Date.parse(`2024-01-01T${text}`)),
  "date-time": (text) => !Number.isNaN(Date.parse(text)),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text),
  ipv4: (text) => {
    const bytes = text.split(".").map(Number);
    return bytes.length === 4 && bytes.every((byte) => byte >= 0 && byte <= 255);
  },
  email: (text) => /^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(text),
  uri: (text) => URL.canParse(text),
};

const fault = (isValid: boolean, text: string) => (isValid ? undefined : text);
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function onNumber(test: (value: number, bound: number) => boolean): Check {
  return (bound: number, value) =>
    fault(typeof value !== "number" || test(value, bound), `${String(value)} breaks ${bound}`);
}

const CHECKS: Readonly<Record<string, Check>> = {
  type: (types: string | readonly string[], value) =>
    fault(
      [types].flat().some((type) => isOfType(value, type)),
      `not of type ${String(types)}`,
    ),
  enum: (values: readonly unknown[], value) =>
    fault(
      values.some((other) => same(other, value)),
      "not in the enum",
    ),
  const: (constant: unknown, value) => fault(same(constant, value), "not the constant"),
  anyOf: (schemas: readonly Schema[], value, { root }) =>
    fault(
      schemas.some((schema) => findViolation(schema, value, root) === undefined),
      "no alternative fits",
    ),
  allOf: (schemas: readonly Schema[], value, { root }) =>
    schemas
      .map((schema) => findViolation(schema, value, root))
      .find((found) => found !== undefined),
  $ref: (reference: string, value, { root }) =>
    findViolation(followReference(root, reference), value, root),
  properties: (properties: Readonly<Record<string, Schema>>, value, { schema, root }) => {
    if (!isObject(value)) return undefined;
    const required: unknown = schema["required"] ?? [];
    assert(Array.isArray(required), "required names are a list");
    if (!required.every((name) => Object.hasOwn(value, String(name)))) return "a member is missing";
    return Object.entries(properties)
      .filter(([name]) => Object.hasOwn(value, name))
      .map(([name, property]) => findViolation(property, value[name], root))
      .find((found) => found !== undefined);
  },
  additionalProperties: (schema: Schema, value, place) => {
    if (!isObject(value)) return undefined;
    const named: unknown = place.schema["properties"] ?? {};
    assert(isObject(named), "properties are an object");
    return Object.entries(value)
      .filter(([name]) => !Object.hasOwn(named, name))
      .map(([, member]) => findViolation(schema, member, place.root))
      .find((found) => found !== undefined);
  },
  prefixItems: (schemas: readonly Schema[], value, { root }) =>
    Array.isArray(value)
      ? schemas
          .slice(0, value.length)
          .map((schema, index) => findViolation(schema, value[index], root))
          .find((found) => found !== undefined)
      : undefined,
  items: (schema: Schema, value, place) => {
    if (!Array.isArray(value)) return undefined;
    const prefix: unknown = place.schema["prefixItems"] ?? [];
    assert(Array.isArray(prefix), "prefix items are a list");
    return value
      .slice(prefix.length)
      .map((part: unknown) => findViolation(schema, part, place.root))
      .find((found) => found !== undefined);
  },
  minItems: (min: number, value) => fault(!Array.isArray(value) || value.length >= min, "too few"),
  maxItems: (max: number, value) => fault(!Array.isArray(value) || value.length <= max, "too many"),
  minLength: (min: number, value) =>
    fault(typeof value !== "string" || Array.from(value).length >= min, "too short"),
  maxLength: (max: number, value) =>
    fault(typeof value !== "string" || Array.from(value).length <= max, "too long"),
  pattern: (pattern: string, value) =>
    fault(typeof value !== "string" || new RegExp(pattern).test(value), `not ${pattern}`),
  format: (format: string, value) =>
    fault(typeof value !== "string" || FORMATS[format]?.(value) === true, `no ${format}`),
  minimum: onNumber((value, bound) => value >= bound),
  maximum: onNumber((value, bound) => value <= bound),
  exclusiveMinimum: onNumber((value, bound) => value > bound),
  exclusiveMaximum: onNumber((value, bound) => value < bound),
};

function isOfType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  return type === "object" ? isObject(value) : typeof value === type;
}

function same(one: unknown, other: unknown): boolean {
  try {
    assert.deepStrictEqual(one, other);
    return true;
  } catch {
    return false;
  }
}

function followReference(root: Schema, reference: string): Schema {
  let target: unknown = root;
  for (const key of reference.split("/").slice(1)) {
    assert(isObject(target), "a reference leads through objects");
    target = target[key.replaceAll("~1", "/")];
  }
  assert(typeof target === "boolean" || isObject(target), "a reference leads to a schema");
  return target;
}
