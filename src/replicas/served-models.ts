import { assert } from "../base/assert.ts";
import { ListedNames } from "./listed-names.ts";

/** What is known of the models that a replica serves; names are in lower case. */
export interface ServedModelsState {
  /** All that it serves, as it said when it was asked last. */
  told?: {
    readonly names: ReadonlyMap<string, true>;
    readonly atMs: number;
    /** It answers whichever name it is asked by: what it lists is what it is, not all that it takes. */
    readonly answersAnyName?: true;
  };
  /** What it has refused as no model of its, and when. */
  readonly refused: Map<string, number>;
  /** Somebody wanted a model that it was not known to have: it is worth asking again. */
  isWanted?: true;
}

/** What its configuration says, and what it says itself. */
export interface ServedModelsSource {
  readonly settings: { readonly models?: readonly string[] };
  readonly isRemoved: boolean;
  readonly models: ServedModelsState;
}

/** Two rounds in which it is asked, and some more: what was said earlier is not known any more. */
export const MODELS_AGE_MS_MAX = 75_000;
/** A model that was refused may be loaded by then. */
export const REFUSED_MS = 30_000;
/** Beyond these the one refused longest ago is tried again. */
const REFUSED_MAX = 64;

/**
 * Which models a replica serves: what its configuration lists, or else what it says; where neither says anything,
 * whichever it is asked for. A name that it has just refused it does not serve, whoever says so.
 *
 * One that answers whichever name it is asked by would answer for another model without a word. So a name that any replica lists is
 * for those that list it, however long ago that was said; one that none lists may be anybody's other name.
 */
export class ServedModels {
  readonly #source: ServedModelsSource;
  /** Of all replicas of the pool. */
  readonly #listed: ListedNames;
  /** Of this one, as they are counted there. */
  #own: readonly string[] = [];

  constructor(source: ServedModelsSource, listed: ListedNames = new ListedNames()) {
    this.#source = source;
    this.#listed = listed;
    this.count();
  }

  /** Whether a request for a model may be sent there; `undefined`: of no particular model. */
  has(name: string | undefined, nowMs: number): boolean {
    if (name === undefined) return true;
    const { settings, models } = this.#source;
    const { told, refused } = models;
    if (settings.models !== undefined && !settings.models.includes(name)) return false;
    if (told === undefined && refused.size === 0) return true;
    const key = name.toLowerCase();
    if (nowMs - (refused.get(key) ?? -Infinity) < REFUSED_MS) return false;
    if (settings.models !== undefined || told === undefined) return true;
    if (told.answersAnyName) return told.names.has(key) || !this.#listed.has(key);
    return nowMs - told.atMs > MODELS_AGE_MS_MAX || told.names.has(key);
  }

  /** Takes in all names that it says it serves models by; what it refused before may be there now. */
  told(names: readonly string[], nowMs: number, answersAnyName = false): void {
    const { models } = this.#source;
    const known = new Map(names.map((name) => [name.toLowerCase(), true] as const));
    const any = answersAnyName && { answersAnyName };
    models.told = { names: known, atMs: nowMs, ...any };
    models.refused.clear();
    delete models.isWanted;
    this.count();
  }

  /** Follows the configuration. Of another server in its place nothing is known. */
  follow({ isMoved }: { readonly isMoved: boolean }): void {
    const { models } = this.#source;
    if (isMoved) {
      delete models.told;
      models.refused.clear();
    }
    this.count();
  }

  /** Counts what it lists among the names of its pool, after that may have changed. */
  count(): void {
    const names = this.#namesListed();
    this.#listed.replace(this.#own, names);
    this.#own = names;
  }

  /** It has refused a request because it has no such model. */
  refused(name: string, nowMs: number): void {
    const { refused } = this.#source.models;
    const key = name.toLowerCase();
    refused.delete(key);
    refused.set(key, nowMs);
    const [oldest] = refused.keys();
    if (refused.size > REFUSED_MAX && oldest !== undefined) refused.delete(oldest);
    this.want();
  }

  /** Somebody wants a model that it is not known to have. */
  want(): void {
    this.#source.models.isWanted = true;
  }

  /** Names that it is known to list. */
  get listed(): readonly string[] {
    return this.#own;
  }

  checkInvariants(): void {
    assert(this.#own.join() === this.#namesListed().join(), "what it lists is counted");
  }

  #namesListed(): readonly string[] {
    const { isRemoved, settings, models } = this.#source;
    if (isRemoved) return [];
    const names = settings.models?.map((name) => name.toLowerCase());
    return names === undefined ? [...(models.told?.names.keys() ?? [])] : [...new Set(names)];
  }
}
