import { assert } from "../base/assert.ts";
import type { CachedPrefixes } from "../protocol/engine-api.ts";
import type { PromptChain } from "../protocol/prompt-chain.ts";
import { CHAIN_KEY_LENGTH, chainKeyAt, chainLength } from "../protocol/prompt-chain.ts";
import type { ChainNames } from "./chain-names.ts";

/** What a {@link PrefixIndex} remembers. */
export interface PrefixIndexState {
  /**
   * Names of beginnings, least recently sent first, and until when they are believed to be cached:
   * `Infinity` for what the replica itself has told.
   */
  readonly keys: Map<string, number>;
  /** Of what the replica told last; 0 before. */
  sequence: number;
  /** Which part of the hits that were foreseen has come of late, in (0, 1]. */
  trustRatio: number;
}

export function newPrefixIndexState(): PrefixIndexState {
  return { keys: new Map(), sequence: 0, trustRatio: 1 };
}

/** A replica of a small pool may have so many; its own report of more is cut. */
export const PREFIX_KEYS_MAX = 16_384;
/** Of all replicas of a pool: with two snapshots for its log some dozen megabytes. */
export const POOL_PREFIX_KEYS_MAX = 131_072;

/** What was sent to a replica that reports is told by it within so long, or is not there. */
const UNTOLD_MS = 60_000;
/** Servers that tell nothing keep what is idle for about so long. */
const UNTOLD_FOREIGN_MS = 600_000;
/** How much a single hit says of the next one, and how little may come to be believed of them. */
const TRUST = { weight: 0.2, ratioMin: 0.05 } as const;

/**
 * Which beginnings of prompts a replica has cached: what it tells of itself, and what was sent there since,
 * which is known at once. Of a server that tells nothing only the latter is known, for as long as such
 * servers keep what is idle; how often that was wrong its answers tell. A wrong guess costs a forecast that
 * the margin must cover, and never an answer.
 */
export class PrefixIndex {
  readonly state: PrefixIndexState;
  #keysMax: number;

  constructor(keysMax = PREFIX_KEYS_MAX, state: PrefixIndexState = newPrefixIndexState()) {
    this.state = state;
    this.#keysMax = keysMax;
  }

  /**
   * Returns which part of a prompt is probably cached here; 0 when nothing is, or nobody can say. Changes
   * nothing: many replicas are asked, and one is sent to.
   */
  hitRatio(names: ChainNames | undefined, nowMs: number): number {
    if (names === undefined || names.length === 0 || !this.#has(names.at(0), nowMs)) return 0;
    // What is cached of a prompt is a beginning, so the end of it is found by halving.
    let low = 1;
    let high = names.length;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#has(names.at(middle - 1), nowMs)) low = middle;
      else high = middle - 1;
    }
    return Math.min(1, low * names.chain.blockRatio);
  }

  /** How much of such a hit is to be counted on. */
  get trustRatio(): number {
    return this.state.trustRatio;
  }

  /** Notes that a prompt was sent here, to a replica that tells what it has or to one that does not. */
  note(chain: PromptChain, { isForeign, nowMs }: { isForeign: boolean; nowMs: number }): void {
    const { keys } = this.state;
    const untoldUntilMs = nowMs + (isForeign ? UNTOLD_FOREIGN_MS : UNTOLD_MS);
    // The longest first, so that what prompts have in common is the last to be forgotten, as in an
    // engine, which can only drop the ends of what it holds.
    for (let index = chainLength(chain) - 1; index >= 0; index -= 1) {
      const key = chainKeyAt(chain, index);
      const isTold = keys.get(key) === Infinity;
      keys.delete(key);
      keys.set(key, isTold ? Infinity : untoldUntilMs);
    }
    this.#trim(nowMs);
  }

  /**
   * Takes in what the replica tells. Returns false where something was told before that has not been heard:
   * then the replica has to tell all of it.
   */
  told({ sequence, isWhole, stored, removed }: CachedPrefixes, nowMs: number): boolean {
    const { keys } = this.state;
    const isNext = isWhole || sequence === this.state.sequence + 1;
    this.state.sequence = sequence;
    if (isWhole) {
      for (const [key, untilMs] of keys) if (untilMs === Infinity) keys.delete(key);
    }
    for (const key of keysOf(removed)) {
      // What was sent here since will be there again.
      if (keys.get(key) === Infinity) keys.delete(key);
    }
    for (const key of keysOf(stored)) keys.set(key, Infinity);
    this.#trim(nowMs);
    return isNext;
  }

  /** Learns how much of a hit that was foreseen came. */
  learnHit(foreseenTokens: number, actualTokens: number): void {
    if (foreseenTokens <= 0) return;
    const { weight, ratioMin } = TRUST;
    const ratio = Math.min(1, actualTokens / foreseenTokens);
    const trustRatio = (1 - weight) * this.state.trustRatio + weight * ratio;
    this.state.trustRatio = Math.max(ratioMin, trustRatio);
  }

  /** Keeps at most so many names from now on. */
  limitTo(keysMax: number): void {
    this.#keysMax = keysMax;
    this.#trim(0);
  }

  /** Forgets everything: another process has an empty cache. */
  forget(): void {
    this.state.keys.clear();
    this.state.sequence = 0;
    this.state.trustRatio = 1;
  }

  checkInvariants(): void {
    const { keys, trustRatio } = this.state;
    assert(keys.size <= this.#keysMax, "the keys are within their bound");
    assert(trustRatio > 0 && trustRatio <= 1, "a hit is counted on as a part of itself");
  }

  #has(name: string, nowMs: number): boolean {
    return (this.state.keys.get(name) ?? 0) > nowMs;
  }

  #trim(nowMs: number): void {
    const { keys } = this.state;
    for (const [key, untilMs] of keys) {
      if (keys.size <= this.#keysMax && untilMs > nowMs) break;
      keys.delete(key);
    }
  }
}

function* keysOf(keys: string): Generator<string> {
  for (let start = 0; start < keys.length; start += CHAIN_KEY_LENGTH) {
    yield keys.slice(start, start + CHAIN_KEY_LENGTH);
  }
}

/** How many names each of a pool's replicas may have. */
export function prefixKeysMaxOf(replicas: number): number {
  return Math.min(PREFIX_KEYS_MAX, Math.floor(POOL_PREFIX_KEYS_MAX / Math.max(1, replicas)));
}
