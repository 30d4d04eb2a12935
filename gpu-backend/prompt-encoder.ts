import { Worker } from "node:worker_threads";
import {
  charactersOf,
  encodePrompt,
  type PromptInput,
  type PromptModel,
} from "./engine/tokenizer/encode-prompt.ts";
import type { EncodedPrompt } from "./engine/tokenizer/prompt-limit.ts";

/** What the thread for long prompts is started with. */
export interface PromptThreadOptions {
  readonly modelDirectory: string;
  readonly contextTokens: number;
}

/** From the main thread to the thread for long prompts. */
export interface PromptQuestion {
  readonly id: number;
  readonly input: PromptInput;
}

/** The answer to the question of the same id. */
export interface PromptAnswer {
  readonly id: number;
  readonly prompt: EncodedPrompt;
}

export interface PromptEncoderOptions {
  readonly model: PromptModel;
  readonly modelDirectory: string;
}

/** A prompt that waits for the thread. */
interface PendingPrompt {
  readonly characters: number;
  readonly resolve: (prompt: EncodedPrompt) => void;
  readonly reject: (error: Error) => void;
}

/** So many cost a few milliseconds, less than it takes to ask another thread on a busy machine. */
const INLINE_CHARACTERS_MAX = 2048;
/** What may wait for the thread: about two seconds of its work, whatever the characters are. */
const PENDING_CHARACTERS_MAX = 32 * 1024 * 1024;
const RETRY_AFTER_MS = 1000;

const THREAD_URL = new URL("./prompt-thread-start.mjs", import.meta.url);

/**
 * Makes prompts of what clients send, without keeping others waiting: short ones at once, long ones
 * one after the other in a thread of their own. A thread that dies takes the prompts with it that it
 * had, and the next long one starts another.
 */
export class PromptEncoder {
  readonly #options: PromptEncoderOptions;
  readonly #pending = new Map<number, PendingPrompt>();
  #thread: Worker | undefined;
  #pendingCharacters = 0;
  #questions = 0;

  constructor(options: PromptEncoderOptions) {
    this.#options = options;
    // Its start takes longer than any prompt, so it is not left to the first one.
    this.#runningThread();
  }

  /** Refuses what cannot be a prompt, or what would have to wait too long; rejects on a fault. */
  async encode(input: PromptInput): Promise<EncodedPrompt> {
    const characters = charactersOf(input);
    if (characters <= INLINE_CHARACTERS_MAX) return encodePrompt(this.#options.model, input);
    if (
      this.#pendingCharacters > 0 &&
      this.#pendingCharacters + characters > PENDING_CHARACTERS_MAX
    ) {
      const message = "Too many long prompts wait to be read";
      const code = "server_is_overloaded";
      return { kind: "refused", problem: { code, message, retryAfterMs: RETRY_AFTER_MS } };
    }
    this.#questions += 1;
    const id = this.#questions;
    this.#pendingCharacters += characters;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { characters, resolve, reject });
      const question: PromptQuestion = { id, input };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      this.#runningThread().postMessage(question);
    });
  }

  /** Stops the thread; prompts that it has are rejected. */
  async close(): Promise<void> {
    const thread = this.#thread;
    this.#lose(thread, new Error("The engine is shutting down"));
    await thread?.terminate();
  }

  #runningThread(): Worker {
    if (this.#thread !== undefined) return this.#thread;
    const { model, modelDirectory } = this.#options;
    const workerData: PromptThreadOptions = { modelDirectory, contextTokens: model.contextTokens };
    const thread = new Worker(THREAD_URL, { workerData, stdout: true });
    // Nobody waits for it but clients, and those keep the process alive.
    thread.unref();
    // Standard output is the log.
    thread.stdout.pipe(process.stderr, { end: false });
    thread.on("message", ({ id, prompt }: PromptAnswer) => this.#take(id)?.resolve(prompt));
    thread.on("error", (error) => this.#lose(thread, error));
    thread.on("exit", (code) => this.#lose(thread, new Error(`The thread ended with ${code}`)));
    this.#thread = thread;
    return thread;
  }

  #take(id: number): PendingPrompt | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    this.#pendingCharacters -= pending?.characters ?? 0;
    return pending;
  }

  #lose(thread: Worker | undefined, error: Error): void {
    if (thread === undefined || this.#thread !== thread) return;
    this.#thread = undefined;
    for (const id of this.#pending.keys()) this.#take(id)?.reject(error);
  }
}
