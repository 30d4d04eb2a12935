import { assert } from "../../src/base/assert.ts";
import type { EngineEvent } from "../thread-messages.ts";
import {
  type Answer,
  type AnswerPart,
  type BrokenPart,
  type FinishedPart,
  isBroken,
} from "./answer.ts";

/** A part of one of several answers. */
export interface ChoicePart {
  readonly choice: number;
  readonly part: AnswerPart;
}

/**
 * The answers to one request, read as they come, each of them in order and none twice in a row
 * while another one has something to say. They stand or fall together: the first that breaks is
 * the end of all.
 */
export class AnswerGroup {
  readonly #answers: readonly Answer[];
  readonly #finished: (FinishedPart | undefined)[];
  /** The first that broke; those that it took with it are no news. */
  #broken: { readonly choice: number; readonly part: BrokenPart } | undefined;
  #next = 0;
  #wakeReader: (() => void) | undefined;

  constructor(answers: readonly Answer[]) {
    this.#answers = answers;
    this.#finished = answers.map(() => undefined);
  }

  /** How each answer ended, once all of them were read to their end; undefined before. */
  get endings(): readonly FinishedPart[] | undefined {
    const endings = this.#finished.filter((part) => part !== undefined);
    return endings.length === this.#answers.length ? endings : undefined;
  }

  /** What broke the first that broke; undefined while none has. */
  get broken(): BrokenPart | undefined {
    return this.#broken?.part;
  }

  hear(choice: number, event: EngineEvent): void {
    const answer = this.#answerOf(choice);
    answer.hear(event);
    const { ending } = answer;
    if (ending !== undefined && isBroken(ending)) this.#broken ??= { choice, part: ending };
    if (answer.hasPart) this.#wakeReader?.();
  }

  /** Waits for the next part; undefined when none came for `silenceMsMax`. One call at a time. */
  async next(silenceMsMax: number): Promise<ChoicePart | undefined> {
    const part = this.#take();
    if (part !== undefined) return part;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, silenceMsMax);
      this.#wakeReader = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wakeReader = undefined;
    return this.#take();
  }

  #take(): ChoicePart | undefined {
    for (let offset = 0; offset < this.#answers.length; offset += 1) {
      const choice = (this.#next + offset) % this.#answers.length;
      const part = this.#answerOf(choice).take();
      if (part === undefined || isBroken(part)) continue;
      this.#next = (choice + 1) % this.#answers.length;
      if (part.kind === "finished") this.#finished[choice] = part;
      return { choice, part };
    }
    return this.#broken;
  }

  #answerOf(choice: number): Answer {
    const answer = this.#answers[choice];
    assert(answer !== undefined, "a request has so many choices");
    return answer;
  }
}
