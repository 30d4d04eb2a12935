import { textNotation } from "./notation.ts";

/** Completes "expected …" where `parseName` finds no name. */
export const NAME_NOTATION =
  "a name of at most 64 letters, digits, '.', '_' or '-', the first a letter or digit";

/** Reads the name of a pool, a class, a tenant or a key. */
export function parseName(text: string): string | undefined {
  return /^[A-Za-z0-9][\w.-]{0,63}$/.test(text) ? text : undefined;
}

export const Name = textNotation(NAME_NOTATION, parseName);
