import type { Random } from "../../src/base/random.ts";
import type { ReplicaHello, ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { ReplicaId } from "../../src/protocol/ids.ts";
import type { EventQueue } from "./event-queue.ts";

/** A request as an engine sees it. */
export interface EngineRequest {
  readonly promptTokens: number;
  readonly decodeMs: number;
  readonly dispatch: string;
  readonly onEnd: (end: "completed" | "failed" | "refused") => void;
}

interface Held extends EngineRequest {
  stage: "queued" | "prefilling" | "decoding";
}

/**
 * An engine process on a machine that stays: it prefills one prompt after the other, decodes side
 * by side, refuses when it is full, and forgets everything when it is restarted.
 */
export class SimulatedEngine {
  readonly replicaId: ReplicaId;
  readonly sequencesMax: number;
  readonly queueMax: number;
  readonly #events: EventQueue;
  readonly #tokensPerSecond: number;
  readonly #stepMs: number;
  #held = new Set<Held>();
  #life = 1;
  #isUp = true;
  #isPrefilling = false;
  #lastDispatch: ReplicaReport["lastDispatch"] = null;
  isDraining = false;

  constructor(options: { replicaId: ReplicaId; events: EventQueue; random: Random }) {
    const { random } = options;
    this.replicaId = options.replicaId;
    this.#events = options.events;
    this.sequencesMax = 1 + Math.floor(random() * 6);
    this.queueMax = Math.floor(random() * 4);
    this.#tokensPerSecond = 500 + Math.floor(random() * 4000);
    this.#stepMs = 5 + Math.floor(random() * 40);
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get hello(): ReplicaHello {
    return {
      kind: "hello",
      protocolVersion: 1,
      endpointUrl: this.replicaId,
      instanceId: `life-${this.#life}`,
      modelId: "sluice-tiny",
      contextTokens: 2048,
      blockTokens: 16,
      blockCount: 1024,
      sequencesMax: this.sequencesMax,
      queueMax: this.queueMax,
    };
  }

  report(sequence: number): ReplicaReport {
    const held = [...this.#held];
    const queued = held.filter(({ stage }) => stage === "queued");
    const uncomputed = held.filter(({ stage }) => stage !== "decoding");
    return {
      kind: "report",
      sequence,
      queuedRequests: queued.length,
      runningRequests: held.length - queued.length,
      usedBlocks: 0,
      blockTokens: 16,
      blockCount: 1024,
      queuedUncachedTokens: uncomputed.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
      prefillTokensPerSecond: this.#tokensPerSecond,
      stepMs: this.#stepMs,
      tightestTbtMs: null,
      lastDispatch: this.#lastDispatch,
      draining: this.isDraining,
    };
  }

  /** A request arrives; `onEnd` is called once, unless it is cancelled. Returns how to cancel it. */
  serve(request: EngineRequest): () => void {
    if (!this.#isUp) {
      request.onEnd("failed");
      return () => {};
    }
    this.#note(request.dispatch);
    if (this.isDraining || this.#held.size >= this.sequencesMax + this.queueMax) {
      request.onEnd("refused");
      return () => {};
    }
    const held: Held = { ...request, stage: "queued" };
    this.#held.add(held);
    this.#schedule();
    return () => {
      this.#held.delete(held);
      this.#schedule();
    };
  }

  /** The process dies with all that it holds. */
  die(): void {
    this.#isUp = false;
    const held = [...this.#held];
    this.#held = new Set();
    this.#isPrefilling = false;
    this.#lastDispatch = null;
    this.isDraining = false;
    for (const { onEnd } of held) onEnd("failed");
  }

  /** Another process takes its place, unless one has already. */
  rise(): void {
    if (this.#isUp) return;
    this.#isUp = true;
    this.#life += 1;
  }

  #note(dispatch: string): void {
    const [epoch = "", number] = dispatch.split(".");
    const last = this.#lastDispatch;
    const isOlder = last?.epoch === epoch && last.number >= Number(number);
    if (!isOlder) this.#lastDispatch = { epoch, number: Number(number) };
  }

  /** Starts the next prefill when a sequence is free and none is under way. */
  #schedule(): void {
    const running = [...this.#held].filter(({ stage }) => stage !== "queued").length;
    const next = [...this.#held].find(({ stage }) => stage === "queued");
    if (next === undefined || this.#isPrefilling || running >= this.sequencesMax) return;
    next.stage = "prefilling";
    this.#isPrefilling = true;
    const life = this.#life;
    const prefillMs = (next.promptTokens / this.#tokensPerSecond) * 1000 + this.#stepMs;
    this.#events.after(prefillMs, () => {
      if (life !== this.#life || !this.#isUp) return;
      this.#isPrefilling = false;
      if (this.#held.has(next)) {
        next.stage = "decoding";
        this.#events.after(next.decodeMs, () => this.#finish(next));
      }
      this.#schedule();
    });
  }

  #finish(held: Held): void {
    if (!this.#held.delete(held)) return;
    held.onEnd("completed");
    this.#schedule();
  }
}
