import type { Interpreter } from "@huggingface/jinja";

type Data = ReturnType<Interpreter["evaluate"]>;

/**
 * How long values of a template would be if they were written out. A list that holds one other list twice,
 * which does so in turn, takes hardly any memory, until somebody writes it: then no memory is enough.
 */
export class DataWeights {
  readonly #weightMax: number;
  /** Lists and objects never change once they are made, so each is weighed once. */
  readonly #weights = new WeakMap<Data, number>();

  constructor(weightMax: number) {
    this.#weightMax = weightMax;
  }

  /** Returns it in characters and entries; throws where that is more than there may be. */
  of(data: Data): number {
    const known = this.#weights.get(data);
    if (known !== undefined) return known;
    let weight = 1;
    for (const [key, part] of entriesOf(data)) weight += key.length + this.#ofPart(part);
    if (weight > this.#weightMax) {
      throw new Error("It makes more data than any conversation needs");
    }
    if (data.type !== "NamespaceValue") this.#weights.set(data, weight);
    return weight;
  }

  /** A namespace changes, and so would the weight of all that it is in. */
  #ofPart(part: Data): number {
    if (part.type === "NamespaceValue") throw new Error("It keeps a namespace in other data");
    const { value } = part;
    if (typeof value === "string") return 1 + value.length;
    return Array.isArray(value) || value instanceof Map ? this.of(part) : 1;
  }
}

function* entriesOf({ value }: Data): Generator<readonly [string, Data]> {
  if (Array.isArray(value)) for (const part of value) yield ["", part];
  else if (value instanceof Map) yield* value.entries();
}
