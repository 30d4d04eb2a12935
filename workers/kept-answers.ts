import { ANSWER_STORE_DEFAULTS, AnswerStore } from "../src/prompt-cache/answer-store.ts";
import type { Problem } from "../src/protocol/errors.ts";
import type { Call, CheckedRequest } from "./call.ts";
import type { TextSink } from "./paced-client.ts";

// One per isolate, and gone with it: nothing of an answer is written to any disk.
const store = new AnswerStore();

/** Returns the answer that was given to the very same request before, of a tenant that wants it given again. */
export function keptAnswerOf({ tenant, target }: CheckedRequest): string | undefined {
  const { answerKey } = target.keys;
  return answerKey && store.get(tenant.tenantId, answerKey, Date.now());
}

/** Keeps a whole answer, as its client got it, for requests that allow no other; not one that was cut short. */
export function keepAnswer({ tenant, target, record }: Call, text: string): void {
  const { answerKey } = target.keys;
  if (answerKey === undefined || record.degraded.length > 0) return;
  store.put(tenant.tenantId, answerKey, text, Date.now());
}

/** Writes down what a client gets, as long as it may be kept. */
export class RecordingSink implements TextSink {
  readonly #sink: TextSink;
  #text: string | undefined = "";

  constructor(sink: TextSink) {
    this.#sink = sink;
  }

  get isBlocked(): boolean {
    return this.#sink.isBlocked;
  }

  /** All that the client will have got with the last text; `undefined` where that is too long to be kept. */
  wholeWith(lastText: string): string | undefined {
    return this.#text === undefined ? undefined : this.#text + lastText;
  }

  async send(text: string): Promise<void> {
    this.#record(text);
    await this.#sink.send(text);
  }

  async end(text: string): Promise<void> {
    await this.#sink.end(text);
  }

  async fail(problem: Problem): Promise<void> {
    this.#text = undefined;
    await this.#sink.fail(problem);
  }

  #record(text: string): void {
    if (this.#text === undefined) return;
    const { answerCharactersMax } = ANSWER_STORE_DEFAULTS;
    const isTooLong = this.#text.length + text.length > answerCharactersMax;
    this.#text = isTooLong ? undefined : this.#text + text;
  }
}
