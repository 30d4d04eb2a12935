import { assert } from "../base/assert.ts";

/** A beginning of a prompt: under which key its KV is found, and how much of the prompt it is. */
export interface PromptPrefix {
  /** The tenant's own; equal keys mean equal beginnings. */
  readonly key: string;
  /** From the prompt's start. */
  readonly bytes: number;
}

/** What a {@link PrefixIndex} remembers: the keys and their bytes, least recently sent first. */
export type PrefixIndexState = Map<string, number>;

/**
 * More prompts than a GPU's KV memory holds beside each other, and at 128 replicas with keys of some
 * dozen characters still a small part of what a Durable Object may have.
 */
const PREFIX_KEYS_MAX = 1_024;

/**
 * Which beginnings of prompts a replica has most likely cached: those that we sent there last. A guess,
 * since the engine forgets by rules of its own; a wrong one costs a forecast that the margin must cover.
 */
export class PrefixIndex {
  readonly state: PrefixIndexState;
  readonly #keysMax: number;

  constructor(keysMax = PREFIX_KEYS_MAX, state: PrefixIndexState = new Map()) {
    this.state = state;
    this.#keysMax = keysMax;
  }

  /**
   * Returns how much of a prompt's beginning is probably cached here; 0 when nothing is. `prefixes` are
   * of one prompt, shortest first. Changes nothing: many replicas are asked, and one is sent to.
   */
  hitBytes(prefixes: readonly PromptPrefix[]): number {
    for (let index = prefixes.length - 1; index >= 0; index--) {
      const prefix = prefixes[index];
      if (prefix !== undefined && this.state.has(prefix.key)) return prefix.bytes;
    }
    return 0;
  }

  /** Notes that a prompt with these beginnings was sent here, shortest first. */
  note(prefixes: readonly PromptPrefix[]): void {
    // The longest first, so that what prompts have in common is the last to be forgotten, as in an
    // engine, which can only drop the ends of what it holds.
    for (let index = prefixes.length - 1; index >= 0; index--) {
      const prefix = prefixes[index];
      if (prefix === undefined) continue;
      this.state.delete(prefix.key);
      this.state.set(prefix.key, prefix.bytes);
    }
    for (const key of this.state.keys()) {
      if (this.state.size <= this.#keysMax) break;
      this.state.delete(key);
    }
  }

  /** Forgets everything: another process has an empty cache. */
  forget(): void {
    this.state.clear();
  }

  checkInvariants(): void {
    assert(this.state.size <= this.#keysMax, "the keys are within their bound");
  }
}
