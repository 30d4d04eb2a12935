import type { Alias, Document, Node, Pair, YAMLError, YAMLMap } from "yaml";
import {
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  parseDocument,
  Parser,
  visit,
} from "yaml";

/** Where in a document something stands: keys of mappings and 0-based indices of sequences. */
export type DocumentPath = readonly (string | number)[];

/** A fault of the text itself, such as a tab where YAML wants spaces. */
export interface YamlFault {
  readonly line: number;
  readonly message: string;
}

/** A parsed YAML text that still knows on which line everything stands. */
export interface YamlDocument {
  /** The plain value, as `JSON.parse` would give it. */
  readonly value: unknown;
  /** The 1-based line of a path, or of the nearest part of it that exists. */
  readonly lineOf: (path: DocumentPath) => number;
  /** Keys that their mapping has already; the value has the last of each. */
  readonly repeatedKeys: readonly RepeatedKey[];
}

/** A key that is in its mapping for the second time. */
interface RepeatedKey {
  readonly path: DocumentPath;
  readonly line: number;
  readonly firstLine: number;
}

/** Far more than any configuration has: each mapping and each list in another one is one or two. */
const LEVELS_MAX = 200;

/** Parses one YAML document; its faults are all told at once. */
export function parseYaml(
  text: string,
):
  | { readonly kind: "ok"; readonly document: YamlDocument }
  | { readonly kind: "invalid"; readonly faults: readonly YamlFault[] } {
  const deepLine = findTooDeep(text);
  if (deepLine !== undefined) {
    const message = "Expected far fewer levels, one within the other";
    return { kind: "invalid", faults: [{ line: deepLine, message }] };
  }
  const lineCounter = new LineCounter();
  // Keys that are there twice are ours to find: yaml's own complaint does not say which key it is,
  // and as a fault of the text it would hide everything that is wrong with the content.
  const document = parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: false });
  const lineAt = (offset: number) => Math.max(lineCounter.linePos(offset).line, 1);
  const faults = [
    ...document.errors.map((error) => ({ line: lineAt(error.pos[0]), message: messageOf(error) })),
    ...listUnresolvedAliases(document).map(({ source, range }) => ({
      line: lineAt(range?.[0] ?? 0),
      message: `There is no anchor &${source}`,
    })),
  ];
  if (faults.length > 0) return { kind: "invalid", faults };

  const lineOf = (path: DocumentPath) => lineAt(findOffset(document, path));
  try {
    const repeatedKeys = findRepeatedKeys(document, lineAt);
    return { kind: "ok", document: { value: document.toJS(), lineOf, repeatedKeys } };
  } catch (error) {
    // Aliases of aliases of aliases: the text is small, the value would not be.
    if (!(error instanceof ReferenceError)) throw error;
    return { kind: "invalid", faults: [{ line: 1, message: error.message }] };
  }
}

/**
 * The line on which there are too many levels. To be looked for first: composing a document goes several calls
 * deeper with each, and where the stack is full V8 may end the process instead of throwing.
 */
function findTooDeep(text: string): number | undefined {
  const parser = new Parser();
  let line = 1;
  for (const lexeme of new Lexer().lex(text)) {
    Array.from(parser.next(lexeme));
    if (parser.stack.length > LEVELS_MAX) return line;
    for (const character of lexeme) if (character === "\n") line += 1;
  }
  return undefined;
}

function messageOf({ code, message }: YAMLError): string {
  return code === "MULTIPLE_DOCS"
    ? "Expected one YAML document, found a second one that begins here"
    : message;
}

function findRepeatedKeys(
  document: Document,
  lineAt: (offset: number) => number,
): readonly RepeatedKey[] {
  const repeated: RepeatedKey[] = [];
  visit(document, {
    Map(_key, map, ancestors) {
      const lineByKey = new Map<string, number>();
      for (const pair of map.items) {
        const key = keyOf(pair);
        if (key === undefined || !isNode(pair.key)) continue;
        const line = lineAt(pair.key.range?.[0] ?? 0);
        const firstLine = lineByKey.get(key);
        if (firstLine === undefined) lineByKey.set(key, line);
        else repeated.push({ path: [...pathOf(ancestors, map), key], line, firstLine });
      }
    },
  });
  return repeated;
}

/** The path of a mapping from all that it lies in, outermost first. */
function pathOf(ancestors: readonly unknown[], map: YAMLMap): DocumentPath {
  const chain = [...ancestors, map];
  return chain.flatMap((outer, index): DocumentPath => {
    if (isPair(outer)) return [keyOf(outer) ?? "?"];
    return isSeq(outer) ? [outer.items.indexOf(chain[index + 1])] : [];
  });
}

function listUnresolvedAliases(document: Document): readonly Alias[] {
  const unresolved: Alias[] = [];
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) === undefined) unresolved.push(alias);
    },
  });
  return unresolved;
}

function findOffset(document: Document, path: DocumentPath): number {
  let node: Node | null = document.contents;
  let offset = node?.range?.[0] ?? 0;
  for (const step of path) {
    const found = stepInto(isAlias(node) ? (node.resolve(document) ?? null) : node, step);
    if (found === undefined) break;
    node = found.node;
    offset = found.offset ?? offset;
  }
  return offset;
}

/** Finds a child of a mapping or sequence; a mapping's child begins at its key. */
function stepInto(
  node: Node | null,
  step: string | number,
): { readonly node: Node | null; readonly offset: number | undefined } | undefined {
  if (isMap(node)) {
    // Of a key that is there twice the last one counts, as it does for the value.
    const pair = node.items.findLast(
      (entry): entry is Pair<Node, Node | null> => keyOf(entry) === `${step}`,
    );
    return pair && { node: pair.value, offset: pair.key.range?.[0] };
  }
  if (isSeq<Node>(node) && typeof step === "number") {
    const child = node.items[step];
    return child && { node: child, offset: child.range?.[0] };
  }
  return undefined;
}

const keyOf = (pair: Pair) => (isScalar(pair.key) ? String(pair.key.value) : undefined);
