import { setTimeout as sleep } from "node:timers/promises";
import { type MessagePort, Worker } from "node:worker_threads";
import { attendedPairsOf } from "../src/step-cost/step-model.ts";
import { monotonicNowMs } from "./clock.ts";
import type { MemoryPlan } from "./engine/executor/memory-plan.ts";
import type { GenerateRequest } from "./engine/generate-request.ts";
import type { PrefixChanges } from "./engine/kv-cache/prefix-names.ts";
import { createStepWatchMemory, StepWatch } from "./step-watch.ts";
import {
  type EngineCommand,
  type EngineEvent,
  type EngineFacts,
  type EngineMessage,
  type EngineSnapshot,
  type EngineThreadInput,
  type EngineThreadOptions,
  isTerminal,
} from "./thread-messages.ts";

/** Hears what happens to one request; its last call is the terminal event. */
export type EngineListener = (event: EngineEvent, atMs: number) => void;

export type EngineCondition = "loading" | "serving" | "draining" | "failed" | "closed";

export interface EngineClientOptions {
  readonly thread: EngineThreadOptions;
  /** The thread's end of the port by which KV comes and goes. */
  readonly kvPort?: MessagePort;
  /** A step that runs longer is taken for one that never ends. */
  readonly stepMsMax?: number;
  /** The program of the thread. */
  readonly threadUrl?: URL;
  /** Called with what the model will take before it is loaded. */
  readonly onPlan?: (plan: MemoryPlan) => void;
  /** Called when the condition or the snapshot is another one. */
  readonly onChange?: () => void;
  /** Called with what has changed of the gateway's names for what is cached. */
  readonly onPrefixChanges?: (changes: PrefixChanges) => void;
  /** Called with what the operator ought to know. */
  readonly onNote?: (note: string) => void;
}

/** Longer than a step and the last writes to disk, behind which a thread that is told to end does so by itself. */
const HALT_MS_MAX = 2_000;
const THREAD_URL = new URL("./engine-thread-start.mjs", import.meta.url);
/** The largest step of a model that is of any use on a CPU takes seconds. */
const STEP_MS_MAX = 60_000;
const WATCH_INTERVAL_MS = 250;

/**
 * The engine as the main thread sees it.
 *
 * Each submitted request hears exactly one terminal event, also when the thread dies or hangs, and
 * hears nothing before `submit` returns. No more requests are open than may wait and run, so that
 * a thread deep in a step does not gather a mailbox without bound.
 */
export class EngineClient {
  /** Resolves with what was loaded; rejects when the thread fails before. */
  readonly loaded: Promise<EngineFacts>;
  /** Resolves when the thread is given up: with what broke it, or undefined after `close`. */
  readonly ended: Promise<string | undefined>;

  readonly #thread: Worker;
  readonly #exited: Promise<unknown>;
  readonly #openRequestsMax: number;
  readonly #onPlan: (plan: MemoryPlan) => void;
  readonly #onChange: () => void;
  readonly #onPrefixChanges: (changes: PrefixChanges) => void;
  readonly #onNote: (note: string) => void;
  readonly #listeners = new Map<string, EngineListener>();
  readonly #idleWaiters: (() => void)[] = [];
  readonly #watchTimer: NodeJS.Timeout;
  #condition: EngineCondition = "loading";
  #snapshot: EngineSnapshot | undefined;
  #submissions = 0;
  /** What is to be prefilled of the latest submissions, those that no snapshot includes yet. */
  #unseenPromptTokens: number[] = [];
  #resolveLoaded: (facts: EngineFacts) => void = () => {};
  #rejectLoaded: (error: Error) => void = () => {};
  #resolveEnded: (failure: string | undefined) => void = () => {};

  constructor(options: EngineClientOptions) {
    this.loaded = new Promise((resolve, reject) => {
      this.#resolveLoaded = resolve;
      this.#rejectLoaded = reject;
    });
    // A failure to load is told by `ended` as well, so nobody is obliged to await this one.
    this.loaded.catch(() => {});
    this.ended = new Promise((resolve) => (this.#resolveEnded = resolve));
    this.#openRequestsMax = options.thread.queueMax + options.thread.sequencesMax;
    this.#onPlan = options.onPlan ?? (() => {});
    this.#onChange = options.onChange ?? (() => {});
    this.#onPrefixChanges = options.onPrefixChanges ?? (() => {});
    this.#onNote = options.onNote ?? (() => {});

    const watchMemory = createStepWatchMemory();
    const { kvPort, threadUrl = THREAD_URL } = options;
    const workerData: EngineThreadInput = { options: options.thread, watchMemory, kvPort };
    const transferList = kvPort === undefined ? [] : [kvPort];
    this.#thread = new Worker(threadUrl, { workerData, transferList, stdout: true });
    // Standard output is the log, line by line JSON; what a runtime has to say is none.
    this.#thread.stdout.pipe(process.stderr, { end: false });
    this.#thread.on("message", (message: EngineMessage) => this.#hear(message));
    this.#thread.on("error", (error) => this.#fail(`The engine thread broke: ${error.message}`));
    this.#exited = new Promise((resolve) => this.#thread.once("exit", resolve));
    this.#thread.on("exit", (code) => this.#fail(`The engine thread ended with code ${code}`));

    const watch = new StepWatch(watchMemory);
    const stepMsMax = options.stepMsMax ?? STEP_MS_MAX;
    this.#watchTimer = setInterval(() => {
      if (watch.runningMs(monotonicNowMs()) <= stepMsMax) return;
      this.#fail(`A step of the engine has not ended after ${stepMsMax} ms`);
    }, WATCH_INTERVAL_MS);
  }

  get condition(): EngineCondition {
    return this.#condition;
  }

  /**
   * Load and counters; undefined while loading. A thread deep in a step does not know yet of what
   * was submitted since, so that is counted here as waiting.
   */
  get load(): EngineSnapshot | undefined {
    const snapshot = this.#snapshot;
    if (snapshot === undefined || this.#unseenPromptTokens.length === 0) return snapshot;
    const unseen = this.#unseenPromptTokens;
    const unseenTokens = unseen.reduce((sum, tokens) => sum + tokens, 0);
    const unseenPairs = unseen.reduce((sum, tokens) => sum + attendedPairsOf(0, tokens), 0);
    return {
      ...snapshot,
      queuedRequests: snapshot.queuedRequests + unseen.length,
      queuedUncachedTokens: snapshot.queuedUncachedTokens + unseenTokens,
      queuedAttendedPairs: snapshot.queuedAttendedPairs + unseenPairs,
      waitingKvTokens: snapshot.waitingKvTokens + unseenTokens,
    };
  }

  /** Resolves when no request is open any more; at once if none is. */
  async whenIdle(): Promise<void> {
    if (this.#listeners.size === 0) return;
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  submit(request: GenerateRequest, listener: EngineListener): void {
    const { id } = request;
    if (this.#condition === "serving" && this.#listeners.size < this.#openRequestsMax) {
      this.#listeners.set(id, listener);
      this.#submissions += 1;
      const { promptTokens, emittedTokens = [] } = request;
      this.#unseenPromptTokens.push(promptTokens.length + emittedTokens.length);
      this.#post({ kind: "submit", request });
      this.#onChange();
      return;
    }
    const event = this.#refusal(id);
    queueMicrotask(() => listener(event, monotonicNowMs()));
  }

  /** Ends a request at the next step boundary; one that has ended already is left alone. */
  cancel(id: string): void {
    if (this.#listeners.has(id)) this.#post({ kind: "cancel", id });
  }

  /** Takes nothing new from now on; what waits or runs goes on. */
  drain(): void {
    if (this.#condition !== "loading" && this.#condition !== "serving") return;
    this.#condition = "draining";
    this.#post({ kind: "drain" });
    this.#onChange();
  }

  /** Stops the thread. Requests that are still open fail with `reason`. */
  async close(reason: string): Promise<void> {
    const hears = this.#condition === "serving" || this.#condition === "draining";
    this.#end("closed", reason, undefined);
    if (hears) await this.#halt();
    await this.#thread.terminate();
  }

  /** Has the thread end between two steps. */
  async #halt(): Promise<void> {
    // One that is ended from without, in the midst of native code, takes the process along (SIGABRT).
    this.#post({ kind: "halt" });
    const abort = new AbortController();
    const late = sleep(HALT_MS_MAX, undefined, { signal: abort.signal }).catch(() => undefined);
    await Promise.race([this.#exited, late]);
    abort.abort();
  }

  #refusal(id: string): EngineEvent {
    const condition = this.#condition;
    if (condition === "serving") return { kind: "refused", id, reason: "queue-full" };
    if (condition === "loading") return { kind: "failed", id, message: "The model is loading" };
    if (condition === "failed") return { kind: "failed", id, message: "The engine is broken" };
    return { kind: "refused", id, reason: "draining" };
  }

  #hear(message: EngineMessage): void {
    switch (message.kind) {
      case "planned":
        this.#onPlan(message.plan);
        return;
      case "loaded":
        this.#see(message.snapshot);
        if (this.#condition === "loading") this.#condition = "serving";
        this.#resolveLoaded(message.facts);
        break;
      case "events":
        this.#see(message.snapshot);
        if (message.prefixes !== undefined) this.#onPrefixChanges(message.prefixes);
        for (const event of message.events) this.#pass(event, message.atMs);
        break;
      case "note":
        this.#onNote(message.note);
        return;
      case "broken":
        this.#fail(message.message);
        return;
    }
    this.#onChange();
  }

  #see(snapshot: EngineSnapshot): void {
    this.#snapshot = snapshot;
    const unseen = this.#submissions - snapshot.submissions;
    this.#unseenPromptTokens.splice(0, this.#unseenPromptTokens.length - unseen);
  }

  #pass(event: EngineEvent, atMs: number): void {
    const listener = this.#listeners.get(event.id);
    if (listener === undefined) return;
    const isLast = isTerminal(event);
    if (isLast) this.#listeners.delete(event.id);
    listener(event, atMs);
    if (isLast && this.#listeners.size === 0) {
      for (const resolve of this.#idleWaiters.splice(0)) resolve();
    }
  }

  #fail(message: string): void {
    if (this.#condition === "failed" || this.#condition === "closed") return;
    this.#end("failed", message, message);
    void this.#thread.terminate();
  }

  #end(condition: "failed" | "closed", reason: string, failure: string | undefined): void {
    if (this.#condition === "failed" || this.#condition === "closed") return;
    this.#condition = condition;
    clearInterval(this.#watchTimer);
    this.#rejectLoaded(new Error(reason));
    const atMs = monotonicNowMs();
    for (const id of this.#listeners.keys()) {
      this.#pass({ kind: "failed", id, message: reason }, atMs);
    }
    this.#onChange();
    this.#resolveEnded(failure);
  }

  #post(command: EngineCommand): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#thread.postMessage(command);
  }
}
