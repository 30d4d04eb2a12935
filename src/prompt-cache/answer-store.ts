import { assert } from "../base/assert.ts";
import type { TenantId } from "../protocol/ids.ts";

/** How much is kept, and for how long. */
export interface AnswerStoreOptions {
  readonly charactersMax: number;
  readonly tenantCharactersMax: number;
  readonly answerCharactersMax: number;
  readonly ttlMs: number;
}

/** A few thousand answers of some hundred tokens in one isolate, whose memory is 128 MB for all it does. */
export const ANSWER_STORE_DEFAULTS: AnswerStoreOptions = {
  charactersMax: 16_777_216,
  tenantCharactersMax: 4_194_304,
  answerCharactersMax: 262_144,
  ttlMs: 600_000,
};

interface KeptAnswer {
  readonly text: string;
  readonly untilMs: number;
}

interface TenantAnswers {
  /** By key, the least recently used first. */
  readonly answers: Map<string, KeptAnswer>;
  characters: number;
}

const NOTHING_KEPT: TenantAnswers = { answers: new Map(), characters: 0 };

/**
 * Answers by the keys of their requests. Each tenant has room of its own, so that nobody's answers are lost
 * by what another one asks, until there are more tenants than fit: then those go that were asked for longest
 * ago.
 */
export class AnswerStore {
  readonly #options: AnswerStoreOptions;
  /** The tenant that was least recently here first. */
  readonly #tenants = new Map<TenantId, TenantAnswers>();
  #characters = 0;

  constructor(options: Partial<AnswerStoreOptions> = {}) {
    this.#options = { ...ANSWER_STORE_DEFAULTS, ...options };
  }

  get(tenantId: TenantId, key: string, nowMs: number): string | undefined {
    const kept = this.#tenants.get(tenantId);
    const answer = kept?.answers.get(key);
    if (kept === undefined || answer === undefined) return undefined;
    this.#drop(tenantId, kept, key);
    if (answer.untilMs <= nowMs) return undefined;
    this.#add(tenantId, key, answer);
    return answer.text;
  }

  /** Keeps an answer, unless it is too long. */
  put(tenantId: TenantId, key: string, text: string, nowMs: number): void {
    const { answerCharactersMax, ttlMs } = this.#options;
    if (text.length > answerCharactersMax) return;
    const kept = this.#tenants.get(tenantId);
    if (kept !== undefined) this.#drop(tenantId, kept, key);
    this.#add(tenantId, key, { text, untilMs: nowMs + ttlMs });
    this.#trim(tenantId);
  }

  checkInvariants(): void {
    let total = 0;
    for (const { answers, characters } of this.#tenants.values()) {
      let sum = 0;
      for (const { text } of answers.values()) sum += text.length;
      assert(sum === characters, "a tenant's answers are counted");
      assert(answers.size > 0, "who has no answer is not remembered");
      assert(sum <= this.#options.tenantCharactersMax, "a tenant's answers are within their bound");
      total += sum;
    }
    assert(total === this.#characters, "all answers are counted");
    assert(total <= this.#options.charactersMax, "all answers are within their bound");
  }

  #add(tenantId: TenantId, key: string, answer: KeptAnswer): void {
    const kept = this.#tenants.get(tenantId) ?? {
      answers: new Map<string, KeptAnswer>(),
      characters: 0,
    };
    this.#tenants.delete(tenantId);
    this.#tenants.set(tenantId, kept);
    kept.answers.set(key, answer);
    kept.characters += answer.text.length;
    this.#characters += answer.text.length;
  }

  #drop(tenantId: TenantId, kept: TenantAnswers, key: string): void {
    const answer = kept.answers.get(key);
    if (answer === undefined) return;
    kept.answers.delete(key);
    kept.characters -= answer.text.length;
    this.#characters -= answer.text.length;
    if (kept.answers.size === 0) this.#tenants.delete(tenantId);
  }

  #trim(tenantId: TenantId): void {
    const { charactersMax, tenantCharactersMax } = this.#options;
    const own = this.#tenants.get(tenantId) ?? NOTHING_KEPT;
    while (own.characters > tenantCharactersMax) this.#dropOldest(tenantId, own);
    for (const [id, kept] of this.#tenants) {
      while (this.#characters > charactersMax && kept.answers.size > 0) this.#dropOldest(id, kept);
      if (this.#characters <= charactersMax) break;
    }
  }

  #dropOldest(tenantId: TenantId, kept: TenantAnswers): void {
    const [key] = kept.answers.keys();
    assert(key !== undefined, "who has characters has an answer");
    this.#drop(tenantId, kept, key);
  }
}
