/** Where something stands in a document: keys and indices from its root. */
export type DocumentPath = (string | number)[];

/** A name at one place of a document, be it its definition or a use of it. */
export interface Mention {
  readonly name: string;
  readonly path: DocumentPath;
}

/** Writes a path as people do: `pools.local.replicas[0].url`. */
export function formatPath(path: readonly (string | number)[]): string {
  return path
    .map((step, index) => {
      if (typeof step === "number") return `[${step}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join("");
}

/** Returns every mention whose name was there before, each with the mention that had it first. */
export function findRepeats(mentions: readonly Mention[]): { repeat: Mention; first: Mention }[] {
  const firstByName = new Map<string, Mention>();
  const repeats: { repeat: Mention; first: Mention }[] = [];
  for (const mention of mentions) {
    const first = firstByName.get(mention.name);
    if (first === undefined) firstByName.set(mention.name, mention);
    else repeats.push({ repeat: mention, first });
  }
  return repeats;
}

/** Returns the mentions whose name is not among the known ones. */
export function findUnknown(mentions: readonly Mention[], known: Iterable<string>): Mention[] {
  const knownNames = new Set(known);
  return mentions.filter((mention) => !knownNames.has(mention.name));
}
