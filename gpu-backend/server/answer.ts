import type { FinishReason, TokenCounts } from "../../src/protocol/chat-response.ts";
import type { RefusalReason } from "../engine/generate-request.ts";
import type { EngineEvent } from "../thread-messages.ts";
import type { AnswerText } from "./answer-text.ts";

/** The end of a complete answer. */
export interface FinishedPart {
  readonly kind: "finished";
  readonly reason: FinishReason;
  readonly counts: Pick<TokenCounts, "promptTokens" | "cachedTokens" | "outputTokens">;
}

/** The end of an answer that is not complete. */
export type BrokenPart =
  | { readonly kind: "cancelled" }
  | { readonly kind: "refused"; readonly reason: RefusalReason }
  | { readonly kind: "failed"; readonly message: string };

/** What the reader of an answer gets next; all but text is the last. */
export type AnswerPart =
  | { readonly kind: "text"; readonly text: string }
  | FinishedPart
  | BrokenPart;

/**
 * One answer between the engine, which says when a token comes, and a client, which reads as fast
 * as it likes.
 *
 * The first token is told even if it has no text yet; after it, only text is. Text that nobody has
 * read is merged into one part, so a slow reader costs the length of the answer and no more.
 */
export class Answer {
  readonly #text: AnswerText;
  readonly #cancel: () => void;
  #unreadText: string | undefined;
  #ending: FinishedPart | BrokenPart | undefined;
  #hasFirstToken = false;
  #wakeReader: (() => void) | undefined;

  /** `cancel` asks the engine to stop; it is called when a stop string ended the text. */
  constructor(text: AnswerText, cancel: () => void) {
    this.#text = text;
    this.#cancel = cancel;
  }

  /** True once the text is complete, though the engine may not have said so yet. */
  get isComplete(): boolean {
    return this.#text.isStopped || this.#ending !== undefined;
  }

  /** How the answer ended; undefined while it goes on. */
  get ending(): FinishedPart | BrokenPart | undefined {
    return this.#ending;
  }

  hear(event: EngineEvent): void {
    switch (event.kind) {
      case "started":
        return;
      case "token":
        this.#hearToken(event.tokenId);
        break;
      case "finished":
        this.#ending = this.#finish(event);
        break;
      case "refused":
      case "failed":
        this.#ending = event;
        break;
    }
    if (this.#unreadText !== undefined || this.#ending !== undefined) this.#wakeReader?.();
  }

  /** Waits for the next part; undefined when none came for `silenceMsMax`. One call at a time. */
  async next(silenceMsMax: number): Promise<AnswerPart | undefined> {
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

  #take(): AnswerPart | undefined {
    const text = this.#unreadText;
    if (text === undefined) return this.#ending;
    this.#unreadText = undefined;
    return { kind: "text", text };
  }

  #hearToken(tokenId: number): void {
    if (this.#text.isStopped) return;
    const text = this.#text.push(tokenId);
    if (text !== "" || !this.#hasFirstToken) this.#unreadText = (this.#unreadText ?? "") + text;
    this.#hasFirstToken = true;
    if (this.#text.isStopped) this.#cancel();
  }

  #finish(event: Extract<EngineEvent, { kind: "finished" }>): FinishedPart | BrokenPart {
    const isCancelled = event.reason === "cancelled" && !this.#text.isStopped;
    const text = this.#text.end();
    if (text !== "") this.#unreadText = (this.#unreadText ?? "") + text;
    if (isCancelled) return { kind: "cancelled" };
    const { promptTokens, cachedTokens } = event;
    const { isStopped, outputTokens } = this.#text;
    return {
      kind: "finished",
      reason: !isStopped && event.reason === "length" ? "length" : "stop",
      counts: { promptTokens, cachedTokens, outputTokens },
    };
  }
}
