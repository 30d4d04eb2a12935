import type { ConfigurationProblem } from "./configuration-problems.ts";
import { unknownName } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import type { Mention } from "./references.ts";
import { findRepeats, findUnknown, formatPath } from "./references.ts";

/** Names that are none of those that exist. */
export function unresolved(
  what: string,
  uses: readonly Part[],
  names: readonly string[],
): ConfigurationProblem[] {
  return findUnknown(mentionsOf(uses), names).map(({ name, path }) => ({
    path,
    message: unknownName(what, name, names),
  }));
}

/** Names that are there for the second time. */
export function repeats(
  parts: readonly Part[],
  identify: (text: string) => string | undefined = (text) => text,
): ConfigurationProblem[] {
  return findRepeats(mentionsOf(parts, identify)).map(({ repeat, first }) => ({
    path: repeat.path,
    message: `is there twice: first at ${formatPath(first.path)}`,
  }));
}

/** The names that parts of a document have, where they stand. */
export function mentionsOf(
  parts: readonly Part[],
  identify: (text: string) => string | undefined = (text) => text,
): Mention[] {
  return parts.flatMap(({ value, path }) => {
    const name = typeof value === "string" ? identify(value) : undefined;
    return name === undefined ? [] : [{ name, path }];
  });
}
