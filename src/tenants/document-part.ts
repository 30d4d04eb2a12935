import { isMapping } from "./notation.ts";
import type { DocumentPath } from "./references.ts";

/** A part of a document as it was written, right or wrong, and where it stands. */
export interface Part {
  readonly value: unknown;
  readonly path: DocumentPath;
}

/** Returns what a mapping has under a name; its value is `undefined` where there is none. */
export function child({ value, path }: Part, name: string): Part {
  return { value: isMapping(value) ? value[name] : undefined, path: [...path, name] };
}

/** Returns what each of several mappings has under a name. */
export function childrenOf(parts: readonly Part[], name: string): Part[] {
  return parts.map((part) => child(part, name));
}

/** Returns the entries of a mapping; none where there is no mapping. */
export function entriesOf(part: Part): Part[] {
  return isMapping(part.value) ? Object.keys(part.value).map((name) => child(part, name)) : [];
}

/** Returns the items of a list; none where there is no list. */
export function itemsOf({ value, path }: Part): Part[] {
  return Array.isArray(value)
    ? value.map((item: unknown, index) => ({ value: item, path: [...path, index] }))
    : [];
}

/** Returns the name under which an entry stands. */
export function nameOf({ path }: Part): string {
  return String(path.at(-1));
}
