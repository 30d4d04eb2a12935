import { assert } from "../base/assert.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { LeaseId, ModelId, TenantId } from "../protocol/ids.ts";
import { attendedPairsOf } from "../step-cost/step-model.ts";
import type { Resident } from "./replica-load.ts";

/** A request as it is sent to a replica, with what is expected of it. */
export interface SentRequest {
  /** Greater than all that went before in this epoch of the pool. */
  readonly dispatchNumber: number;
  readonly leaseId: LeaseId;
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  readonly promptTokens: number;
  /** Of the prompt, expected to be cached there. */
  readonly cachedTokens: number;
  readonly expectedOutputTokens: number;
  readonly outputTokensMax: number | undefined;
  /** What its tenant was promised; absent: nothing. */
  readonly tpotMs: number | undefined;
  readonly tbtMs: number | undefined;
}

/** One of our requests that is on a replica or on its way there. */
export interface ResidentRequest extends SentRequest, Resident {
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  cachedTokens: number;
  firstTokenAtMs?: number;
}

/** What {@link Residents} remember. */
export interface ResidentsState {
  /** By number of dispatch, and in its order. */
  readonly requests: Map<number, ResidentRequest>;
  /** The last dispatch that was sent here. */
  sentNumber: number;
  /** The replica has said that dispatches up to this number have arrived. */
  acknowledgedNumber: number;
}

/** What a report cannot know yet, or what will be of those it knows: sums over requests. */
export interface ResidentSums {
  requests: number;
  /** Prompt tokens to be computed, and the pairs that they attend to. */
  prefillTokens: number;
  prefillPairs: number;
  promptTokens: number;
  /** Prompt and expected output. */
  expectedTokens: number;
}

/**
 * Our requests on one replica, and among them the ledger: those that no report has acknowledged. Their
 * sums and tightest targets are kept, so that a forecast costs the same however many there are.
 */
export class Residents implements Iterable<ResidentRequest> {
  readonly state: ResidentsState;
  readonly #unreported = new Set<number>();
  #ledger = zeroSums();
  #reported = zeroSums();
  #tpotMs = new KeyedHeap<number>();
  #tbtMs = new KeyedHeap<number>();

  constructor(
    state: ResidentsState = { requests: new Map(), sentNumber: 0, acknowledgedNumber: 0 },
  ) {
    this.state = state;
    for (const request of state.requests.values()) this.#index(request);
  }

  get size(): number {
    return this.state.requests.size;
  }

  [Symbol.iterator](): Iterator<ResidentRequest> {
    return this.state.requests.values();
  }

  get(dispatchNumber: number): ResidentRequest | undefined {
    return this.state.requests.get(dispatchNumber);
  }

  isUnreported(dispatchNumber: number): boolean {
    return this.#unreported.has(dispatchNumber);
  }

  /** Of those that no report has acknowledged. */
  get ledger(): Readonly<ResidentSums> {
    return this.#ledger;
  }

  /** Of those that a report has acknowledged. */
  get reported(): Readonly<ResidentSums> {
    return this.#reported;
  }

  get tightestTpotMs(): number {
    return this.#tpotMs.firstPriority ?? Infinity;
  }

  get tightestTbtMs(): number {
    return this.#tbtMs.firstPriority ?? Infinity;
  }

  /** Tokens are rounded up: whole numbers have sums that do not depend on the order of adding. */
  add(sent: SentRequest): void {
    assert(sent.dispatchNumber > this.state.sentNumber, "numbers of dispatches rise");
    const promptTokens = Math.ceil(sent.promptTokens);
    const request: ResidentRequest = {
      ...sent,
      promptTokens,
      cachedTokens: Math.min(promptTokens, Math.floor(sent.cachedTokens)),
      expectedOutputTokens: Math.ceil(sent.expectedOutputTokens),
    };
    this.state.sentNumber = sent.dispatchNumber;
    this.state.requests.set(sent.dispatchNumber, request);
    this.#index(request);
  }

  /** Its first token has come, so its prompt is computed, whether or not a report says so yet. */
  started(dispatchNumber: number, nowMs: number): void {
    const request = this.state.requests.get(dispatchNumber);
    if (request === undefined || request.firstTokenAtMs !== undefined) return;
    this.#count(request, -1);
    request.firstTokenAtMs = nowMs;
    this.#count(request, 1);
  }

  /** Of its prompt only so much is cached there, against what was expected. */
  recompute(dispatchNumber: number, cachedTokens: number): void {
    const request = this.state.requests.get(dispatchNumber);
    if (request === undefined) return;
    this.#count(request, -1);
    request.cachedTokens = Math.min(request.promptTokens, Math.floor(cachedTokens));
    this.#count(request, 1);
  }

  /** The replica says that it has all dispatches up to this number. */
  acknowledge(arrivedNumber: number): void {
    // What was not sent yet cannot have arrived, whatever somebody told the replica.
    const number = Math.min(arrivedNumber, this.state.sentNumber);
    if (number <= this.state.acknowledgedNumber) return;
    for (const dispatchNumber of this.#unreported) {
      if (dispatchNumber > number) break;
      const request = this.#at(dispatchNumber);
      this.#count(request, -1);
      this.#unreported.delete(dispatchNumber);
      this.#count(request, 1);
    }
    this.state.acknowledgedNumber = number;
  }

  /** Takes a request out. */
  remove(dispatchNumber: number): ResidentRequest {
    const request = this.#at(dispatchNumber);
    this.#count(request, -1);
    this.#unreported.delete(dispatchNumber);
    this.#tpotMs.delete(dispatchNumber);
    this.#tbtMs.delete(dispatchNumber);
    this.state.requests.delete(dispatchNumber);
    return request;
  }

  /** All are gone. Numbers go on where they were. */
  clear(): void {
    this.state.requests.clear();
    this.#unreported.clear();
    this.#ledger = zeroSums();
    this.#reported = zeroSums();
    this.#tpotMs = new KeyedHeap();
    this.#tbtMs = new KeyedHeap();
  }

  checkInvariants(): void {
    const { acknowledgedNumber, sentNumber } = this.state;
    assert(acknowledgedNumber <= sentNumber, "what has arrived was sent");
    const rebuilt = new Residents(this.state);
    let before = 0;
    for (const dispatchNumber of this.state.requests.keys()) {
      assert(dispatchNumber > before, "residents are in order of dispatch");
      before = dispatchNumber;
    }
    for (const name of ["ledger", "reported"] as const) {
      for (const key of SUM_KEYS) {
        assert(this[name][key] === rebuilt[name][key], `${name} ${key} are those of its requests`);
      }
    }
    assert(this.#unreported.size === rebuilt.#unreported.size, "the ledger holds who is here");
    for (const [own, right] of [
      [this.#tpotMs, rebuilt.#tpotMs],
      [this.#tbtMs, rebuilt.#tbtMs],
    ] as const) {
      own.checkInvariants();
      assert(own.size === right.size, "a target counts as long as its request is here");
      assert(own.firstPriority === right.firstPriority, "the tightest target is that of one here");
    }
  }

  #at(dispatchNumber: number): ResidentRequest {
    const request = this.state.requests.get(dispatchNumber);
    assert(request !== undefined, "a request is here until it is released");
    return request;
  }

  #index(request: ResidentRequest): void {
    const { dispatchNumber, tpotMs, tbtMs } = request;
    if (dispatchNumber > this.state.acknowledgedNumber) this.#unreported.add(dispatchNumber);
    this.#count(request, 1);
    if (tpotMs !== undefined) this.#tpotMs.set(dispatchNumber, tpotMs);
    if (tbtMs !== undefined) this.#tbtMs.set(dispatchNumber, tbtMs);
  }

  #count(request: ResidentRequest, sign: 1 | -1): void {
    const { promptTokens, cachedTokens, expectedOutputTokens, firstTokenAtMs } = request;
    const sums = this.#unreported.has(request.dispatchNumber) ? this.#ledger : this.#reported;
    sums.requests += sign;
    sums.promptTokens += sign * promptTokens;
    sums.expectedTokens += sign * (promptTokens + expectedOutputTokens);
    if (firstTokenAtMs !== undefined) return;
    const uncachedTokens = promptTokens - cachedTokens;
    sums.prefillTokens += sign * uncachedTokens;
    sums.prefillPairs += sign * attendedPairsOf(cachedTokens, uncachedTokens);
  }
}

const SUM_KEYS = [
  "requests",
  "prefillTokens",
  "prefillPairs",
  "promptTokens",
  "expectedTokens",
] as const satisfies readonly (keyof ResidentSums)[];

function zeroSums(): ResidentSums {
  return { requests: 0, prefillTokens: 0, prefillPairs: 0, promptTokens: 0, expectedTokens: 0 };
}
