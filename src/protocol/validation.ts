import type * as z from "zod";
import { unreachable } from "../base/assert.ts";
import { type ErrorCode, isErrorCode, type Problem } from "./errors.ts";

/** What became of foreign input: a value of the wanted shape, or what is wrong with it. */
export type Validated<Value> =
  | { readonly kind: "valid"; readonly value: Value }
  | { readonly kind: "invalid"; readonly problem: Problem };

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** Longer values and keys are described by their length: an error must not carry text away. */
const ECHO_CHARACTERS_MAX = 40;

/** Checks a parsed body against a schema; the first fault in the schema's order is the problem. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): Validated<z.output<Schema>> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return { kind: "valid", value: parsed.data };
  const [issue] = parsed.error.issues;
  if (issue === undefined) return { kind: "invalid", problem: { code: "invalid_value" } };
  return { kind: "invalid", problem: toProblem(issue, body) };
}

/**
 * Says in our words what zod found: the code, the parameter's path and a message with what was
 * expected and what was found. Strings appear only by their length, except where the schema lists
 * the values it takes.
 */
function toProblem(issue: Issue, body: unknown): Problem {
  const { path, fault } = locate(issue, body);
  const found = valueAt(body, path);
  const param = path.length === 0 ? undefined : formatPath(path);
  const name = param === undefined ? "the request body" : `'${param}'`;
  // `null` equals absent everywhere, so a null where something must stand is missing as well.
  if (found === undefined || found === null) {
    const message = `Missing required parameter ${name}: expected ${fault.expected}`;
    return { code: "missing_required_parameter", message, ...(param && { param }) };
  }
  const foundText = fault.isEchoed ? echo(found) : describe(found);
  const message = `Expected ${name} to be ${fault.expected}, found ${foundText}`;
  return { code: fault.code, message, ...(param && { param }) };
}

interface Fault {
  readonly code: ErrorCode;
  /** Completes "expected … to be". */
  readonly expected: string;
  /** Whether a short value may be repeated: it stands where only names of ours are allowed. */
  readonly isEchoed?: boolean;
}

/** Descends into unions: into the alternative whose type fits, else all of them are named. */
function locate(issue: Issue, body: unknown): { path: Path; fault: Fault } {
  if (issue.code !== "invalid_union" || issue.errors.length === 0) {
    return { path: issue.path, fault: toFault(issue) };
  }
  for (const [first] of issue.errors) {
    if (first === undefined || (first.path.length === 0 && first.code === "invalid_type")) continue;
    return locate({ ...first, path: [...issue.path, ...first.path] }, body);
  }
  const alternatives = issue.errors.flatMap(([first]) =>
    first === undefined ? [] : [toFault(first).expected],
  );
  return {
    path: issue.path,
    fault: { code: "invalid_type", expected: [...new Set(alternatives)].join(" or ") },
  };
}

function toFault(issue: Issue): Fault {
  switch (issue.code) {
    case "invalid_type":
      return { code: "invalid_type", expected: TYPE_NAMES[issue.expected] ?? issue.expected };
    case "invalid_value":
      return { code: "invalid_value", expected: listValues(issue.values), isEchoed: true };
    case "invalid_union":
      return { code: "invalid_value", expected: discriminatorValues(issue), isEchoed: true };
    case "too_small":
      return tooSmall(issue);
    case "too_big":
      return tooBig(issue);
    case "custom":
      return custom(issue);
    case "invalid_format":
    case "not_multiple_of":
    case "unrecognized_keys":
    case "invalid_key":
    case "invalid_element":
      return { code: "invalid_value", expected: `valid (${issue.message})` };
  }
  return unreachable(issue);
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "a boolean",
  array: "a list",
  object: "an object",
  record: "an object",
};

/** A bound that is not allowed itself is told as such: 0 is at least 0. */
function tooSmall({ origin, minimum, inclusive = true }: z.core.$ZodIssueTooSmall): Fault {
  if (origin === "array") return { code: "empty_array", expected: `a list of at least ${minimum}` };
  if (origin === "string") {
    return { code: "invalid_value", expected: `a string of at least ${minimum} characters` };
  }
  const code = origin === "int" ? "integer_below_min_value" : "decimal_below_min_value";
  return { code, expected: `${inclusive ? "at least" : "more than"} ${minimum}` };
}

function tooBig({ origin, maximum, inclusive = true }: z.core.$ZodIssueTooBig): Fault {
  if (origin === "array") {
    return { code: "array_above_max_length", expected: `a list of at most ${maximum}` };
  }
  if (origin === "string") {
    const expected = `a string of at most ${maximum} characters`;
    return { code: "string_above_max_length", expected };
  }
  const code = origin === "int" ? "integer_above_max_value" : "decimal_above_max_value";
  return { code, expected: `${inclusive ? "at most" : "less than"} ${maximum}` };
}

/** Reads the code that `faultOf` left in a custom issue. */
function custom(issue: z.core.$ZodIssueCustom): Fault {
  const code: unknown = issue.params?.["code"];
  return {
    code: isErrorCode(code) ? code : "invalid_value",
    expected: issue.message,
    isEchoed: issue.params?.["isEchoed"] === true,
  };
}

/**
 * Gives a zod refinement its place in our error table. `expected` completes "expected … to be";
 * `isEchoed` allows a short value to be repeated in the message.
 */
export function faultOf(code: ErrorCode, expected: string, options: { isEchoed?: boolean } = {}) {
  return { error: expected, params: { code, ...options } };
}

function discriminatorValues(issue: z.core.$ZodIssueInvalidUnion): string {
  return listValues("options" in issue ? (issue.options ?? []) : []);
}

function listValues(values: readonly unknown[]): string {
  return values.map((value) => JSON.stringify(value)).join(" or ");
}

/** Writes a path as `messages[2].content`. Keys that a client chose are cut to a bounded length. */
function formatPath(path: Path): string {
  return path.reduce<string>((text, segment) => {
    if (typeof segment === "number") return `${text}[${segment}]`;
    const key = String(segment).slice(0, ECHO_CHARACTERS_MAX);
    return text === "" ? key : `${text}.${key}`;
  }, "");
}

function valueAt(body: unknown, path: Path): unknown {
  let value: unknown = body;
  for (const segment of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, segment)) {
      return undefined;
    }
    value = Reflect.get(value, segment);
  }
  return value;
}

/** Names a value without repeating it. */
export function describe(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "string") return `a string of length ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  return String(value);
}

function echo(value: unknown): string {
  const isShort = typeof value === "string" && value.length <= ECHO_CHARACTERS_MAX;
  return isShort ? JSON.stringify(value) : describe(value);
}
