import * as z from "zod";
import { faultOf } from "./validation.ts";

/** Texts of one request to the engine; each is computed by itself. */
export const TEXTS_MAX = 64;
/** Token ids of one request, all lists together: far more than fit any context of ours. */
const TOKEN_IDS_MAX = 262_144;

/** A text for the model, or the tokens that its author made of it. */
export type TextInput =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tokens"; readonly tokenIds: readonly number[] };

/**
 * What completions and embeddings take: a string, a list of strings, a list of token ids, or a list
 * of such lists. Looked through by hand: a union would try each form on every element.
 */
export function textInputs(textsMax: number) {
  return z
    .union([z.string(), z.array(z.unknown()).min(1).max(TOKEN_IDS_MAX)])
    .transform((input, context): readonly TextInput[] => {
      const texts = typeof input === "string" ? [textOf(input)] : readList(input);
      if (texts === undefined) {
        const { path, expected } = typeof input === "string" ? WHOLE : faultIn(input);
        context.addIssue({ ...issueOf("invalid_type", expected), path: [...path] });
        return z.NEVER;
      }
      if (texts.length > textsMax) {
        context.addIssue(issueOf("array_above_max_length", `a list of at most ${textsMax}`));
        return z.NEVER;
      }
      return texts;
    });
}

/** The same of one request to the engine. */
export const TextInputs = textInputs(TEXTS_MAX);

function readList(list: readonly unknown[]): readonly TextInput[] | undefined {
  if (list.every((entry) => typeof entry === "string")) return list.map(textOf);
  const tokenIds = readTokenIds(list);
  if (tokenIds !== undefined) return [{ kind: "tokens", tokenIds }];
  const texts: TextInput[] = [];
  let tokens = 0;
  for (const entry of list) {
    const ids = Array.isArray(entry) ? readTokenIds(entry) : undefined;
    tokens += ids?.length ?? 0;
    if (ids === undefined || tokens > TOKEN_IDS_MAX) return undefined;
    texts.push({ kind: "tokens", tokenIds: ids });
  }
  return texts;
}

interface ListFault {
  readonly path: readonly number[];
  readonly expected: string;
}

const WHOLE: ListFault = {
  path: [],
  expected: "a string, a list of strings, or token ids in one list or several",
};

/** The first entry that is not of the kind that the list begins with. */
function faultIn(list: readonly unknown[]): ListFault {
  const [first] = list;
  if (typeof first === "string") {
    const index = list.findIndex((entry) => typeof entry !== "string");
    return { path: [index], expected: "a string, as the first of the list is" };
  }
  if (typeof first === "number") return { path: [indexOfNoTokenId(list)], expected: TOKEN_ID };
  const index = list.findIndex(
    (entry) => !Array.isArray(entry) || readTokenIds(entry) === undefined,
  );
  const entry: unknown = list[index];
  if (!Array.isArray(first) || entry === undefined) return WHOLE;
  if (!Array.isArray(entry) || entry.length === 0) {
    return { path: [index], expected: "a list of at least one token id" };
  }
  return { path: [index, indexOfNoTokenId(entry)], expected: TOKEN_ID };
}

const TOKEN_ID = "a token id, a whole number of at least 0";

function indexOfNoTokenId(list: readonly unknown[]): number {
  return list.findIndex((entry) => !isTokenId(entry));
}

function isTokenId(found: unknown): found is number {
  return typeof found === "number" && Number.isSafeInteger(found) && found >= 0;
}

function textOf(text: string): TextInput {
  return { kind: "text", text };
}

function readTokenIds(list: readonly unknown[]): readonly number[] | undefined {
  const ids: number[] = [];
  for (const entry of list) {
    if (!isTokenId(entry)) return undefined;
    ids.push(entry);
  }
  return ids.length === 0 ? undefined : ids;
}

function issueOf(code: Parameters<typeof faultOf>[0], expected: string) {
  const { error: message, params } = faultOf(code, expected);
  return { code: "custom" as const, message, params };
}
