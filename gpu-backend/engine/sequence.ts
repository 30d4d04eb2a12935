import { assert } from "../../src/base/assert.ts";
import type { BatchRow } from "./batch.ts";
import type { GenerateEvent, GenerateRequest } from "./generate-request.ts";
import type { BlockHashing } from "./kv-cache/block-chain.ts";
import { BlockChain, tenantNamespace } from "./kv-cache/block-chain.ts";
import { firstTokensOf } from "./prefills.ts";
import { PromptFindings } from "./prompt-findings.ts";
import type { ComputedRow } from "./row-result.ts";
import { messageOf } from "./message-of.ts";
import { choiceOf, type TokenChoice } from "./token-choice.ts";
import type { TokenConstraint } from "./token-constraint.ts";
import { TokenHistory } from "./token-history.ts";

/** What the engine adds to a request when it takes it. */
export interface SequenceOptions {
  readonly request: GenerateRequest;
  /** 1, 2, 3 … in the order of arrival. */
  readonly arrivalNumber: number;
  readonly arrivedAtMs: number;
  /** The request's own limit, or what the context leaves if that is less. */
  readonly outputTokensMax: number;
  readonly hashing: BlockHashing;
  /** Compiled for this request, its emitted tokens accepted; disposed of by its sequence. */
  readonly constraint?: TokenConstraint;
}

/** What a committed row meant to its sequence. */
export interface SequenceProgress {
  readonly events: GenerateEvent[];
  /** How the request ends with it, if it does. */
  readonly ending: OutputEnding | undefined;
}

type OutputEnding =
  | { readonly kind: "finished"; readonly reason: "stop" | "length" }
  | { readonly kind: "failed"; readonly message: string };

/**
 * One request inside the engine: its known tokens, and how many of them have KV.
 *
 * A step computes known tokens that have none yet. There are no phases: a prefill is a sequence that
 * lacks many, a decode one that lacks only its last token.
 */
export class Sequence {
  readonly request: GenerateRequest;
  readonly arrivalNumber: number;
  readonly arrivedAtMs: number;
  readonly outputTokensMax: number;
  readonly chain: BlockChain;
  /** The prompt, then the output; of what is prefilled only, as much as others can hit. */
  readonly #tokens: number[];
  readonly #stopTokenIds: ReadonlySet<number>;
  readonly #history: TokenHistory;
  readonly #constraint: TokenConstraint | undefined;
  readonly #findings: PromptFindings;
  #computedTokens = 0;
  /** Known tokens when it began to wait: with what output there was, which has no KV, or none any more. */
  #prefillTokens: number;
  #expectedHitTokens = 0;
  #cachedTokens: number | undefined;
  #hasStarted = false;
  #preemptedAtMs: number | undefined;
  #awaitsKv: boolean;

  constructor(options: SequenceOptions) {
    const { request } = options;
    const { promptTokens, emittedTokens = [] } = request;
    this.request = request;
    this.arrivalNumber = options.arrivalNumber;
    this.arrivedAtMs = options.arrivedAtMs;
    this.outputTokensMax = options.outputTokensMax;
    this.#tokens = firstTokensOf(request, options.hashing.blockTokens);
    this.#stopTokenIds = new Set(request.stopTokenIds);
    this.#history = new TokenHistory(request.sampling, promptTokens, emittedTokens);
    this.#constraint = options.constraint;
    this.#findings = new PromptFindings(request);
    this.#prefillTokens = this.#tokens.length;
    const namespace = tenantNamespace(request.tenant, request.cacheSalt);
    const { adapter, promptChain: chain } = request;
    const names = chain && { chain, promptTokens: promptTokens.length };
    this.chain = new BlockChain(options.hashing, namespace, this.#tokens, { adapter, names });
    this.#awaitsKv = request.awaitsKv === true;
  }

  get id(): string {
    return this.request.id;
  }

  get promptTokens(): number {
    return this.request.promptTokens.length;
  }

  get outputTokens(): number {
    return this.isPrefillOnly ? 0 : this.#tokens.length - this.promptTokens;
  }

  /** Its tokens are the full blocks of a prompt, and it ends when they are computed. */
  get isPrefillOnly(): boolean {
    return this.request.prefillOnly === true;
  }

  get knownTokens(): number {
    return this.#tokens.length;
  }

  get computedTokens(): number {
    return this.#computedTokens;
  }

  get uncomputedTokens(): number {
    return this.#tokens.length - this.#computedTokens;
  }

  /**
   * Tokens still to be prefilled: known when it began to wait, and neither computed nor, when last
   * looked up, cached. A decode has none.
   */
  get uncachedTokens(): number {
    return Math.max(
      0,
      this.#prefillTokens - Math.max(this.#computedTokens, this.#expectedHitTokens),
    );
  }

  /** Prompt tokens that were cached at the first admission; `undefined` before it. */
  get cachedTokens(): number | undefined {
    return this.#cachedTokens;
  }

  /** True once a step has computed something for it, even if that was lost to a preemption. */
  get hasStarted(): boolean {
    return this.#hasStarted;
  }

  /** Since when it waits without the KV it had; `undefined` unless it was preempted. */
  get preemptedAtMs(): number | undefined {
    return this.#preemptedAtMs;
  }

  /** True while it waits for KV from elsewhere, and cannot be planned. */
  get awaitsKv(): boolean {
    return this.#awaitsKv;
  }

  /** False for a request that is told about each token of its prompt: it has to compute them all. */
  get readsPrefixCache(): boolean {
    return !this.#findings.needAllTokens;
  }

  /** How many of `uncomputedTokens` one step can compute, had it tokens for all. */
  stepTokensMax(uncomputedTokens: number): number {
    return Math.min(this.#findings.stepTokensMax, uncomputedTokens);
  }

  /** The tokens that the next step computes, at most `tokensMax`. */
  nextTokens(tokensMax: number): Int32Array {
    const tokens = Math.min(tokensMax, this.stepTokensMax(this.uncomputedTokens));
    return Int32Array.from(this.#tokens.slice(this.#computedTokens, this.#computedTokens + tokens));
  }

  /** The prompt, then the output; only grows. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** How many guesses of its output are of use: behind them there is one more token, and it is the last. */
  get draftTokensMax(): number {
    return Math.max(0, this.outputTokensMax - this.outputTokens - 1);
  }

  /** Whether a token ends the output, or would if that had its minimum of tokens. */
  isStop(tokenId: number): boolean {
    return this.#stopTokenIds.has(tokenId);
  }

  /** A decode row with guesses of what follows, to be verified by it. The block table covers them. */
  withDrafts(row: BatchRow, tokenIds: readonly number[], blockTable: Int32Array): BatchRow {
    assert(row.choice !== undefined && row.scoring === undefined, `${this.id} decodes`);
    assert(tokenIds.length <= this.draftTokensMax, `${this.id} has room for what is guessed`);
    const choices = tokenIds.map((_, index) => this.#choiceAt(this.outputTokens + 1 + index));
    return {
      ...row,
      tokens: Int32Array.of(...row.tokens, ...tokenIds),
      blockTable,
      output: "all",
      drafts: { tokenIds: Int32Array.from(tokenIds), choices },
    };
  }

  /** What the next step is to do with these next tokens. The block table covers them. */
  toRow(tokens: Int32Array, blockTable: Int32Array): BatchRow {
    const startPosition = this.#computedTokens;
    const endPosition = startPosition + tokens.length;
    const { scoring, isPooled } = this.#findings.askedOf(startPosition, endPosition);
    const isChosen = endPosition === this.knownTokens && this.outputTokensMax > 0;
    const logits = scoring !== undefined ? "all" : isChosen ? "last" : "none";
    return {
      sequenceId: this.id,
      tokens,
      startPosition,
      blockTable,
      output: isPooled ? "hidden" : logits,
      outputIndex: this.outputTokens,
      ...(isChosen && { choice: this.#choiceAt(this.outputTokens) }),
      ...(scoring !== undefined && { scoring }),
    };
  }

  /** Notes what an admission would find cached, for the estimate in `uncachedTokens`. */
  expectHit(hitTokens: number): void {
    this.#expectedHitTokens = hitTokens;
  }

  /** KV that it would hit is being fetched: until `kvArrived` it waits and is not planned. */
  awaitKv(): void {
    assert(!this.#hasStarted, `Sequence ${this.id} has not started`);
    this.#awaitsKv = true;
  }

  /** The KV that it waited for is here, where an admission finds it; from now on it can be planned. */
  kvArrived(): void {
    this.#awaitsKv = false;
  }

  /** Begins to run, with the KV of `hitTokens` leading tokens found in the cache. */
  admit(hitTokens: number): void {
    assert(this.#computedTokens === 0, `Sequence ${this.id} waited without KV`);
    assert(!this.#awaitsKv, `Sequence ${this.id} has the KV that it waited for`);
    this.#preemptedAtMs = undefined;
    this.#computedTokens = hitTokens;
    this.#expectedHitTokens = 0;
    this.#cachedTokens ??= hitTokens;
  }

  /** Takes what a committed step computed for it. */
  commit(row: BatchRow, result: ComputedRow): SequenceProgress {
    this.#advance(row.tokens.length - (row.drafts?.tokenIds.length ?? 0));
    this.#findings.add(row, result);
    const events = this.#findings.eventsAt(this.#computedTokens);
    if (result.chosen === undefined) {
      const isOver = this.outputTokensMax === 0 && this.uncomputedTokens === 0;
      return { events, ending: isOver ? { kind: "finished", reason: "length" } : undefined };
    }
    for (const [index, token] of result.chosen.entries()) {
      // Behind a draft that held: its KV was computed together with what comes next.
      if (index > 0) this.#advance(1);
      events.push({ kind: "token", id: this.id, ...token });
      const ending = this.#append(token.tokenId);
      if (ending !== undefined) return { events, ending };
    }
    return { events, ending: undefined };
  }

  /** Loses its KV. All known tokens, the output among them, will be computed again. */
  preempt(nowMs: number): void {
    this.#preemptedAtMs = nowMs;
    this.#computedTokens = 0;
    this.#prefillTokens = this.#tokens.length;
  }

  /** Gives back what its constraint holds. The sequence must not be planned any more. */
  dispose(): void {
    this.#constraint?.dispose();
  }

  #choiceAt(outputIndex: number): TokenChoice {
    const at = { outputIndex, history: this.#history, constraint: this.#constraint };
    return choiceOf(this.request, at);
  }

  /** Counts tokens whose KV a step has computed. */
  #advance(tokens: number): void {
    assert(
      tokens > 0 && tokens <= this.uncomputedTokens,
      `Sequence ${this.id} computes known tokens`,
    );
    this.#computedTokens += tokens;
    this.#hasStarted = true;
  }

  /** Appends the chosen token. Returns how the request ends with it, if it does. */
  #append(tokenId: number): OutputEnding | undefined {
    assert(this.uncomputedTokens === 0, `Sequence ${this.id} samples behind its last known token`);
    const isShort = this.outputTokens < this.request.outputTokensMin;
    this.#tokens.push(tokenId);
    this.#history.add(tokenId);
    // Below its minimum only a constraint can end an output: by leaving nothing but the end.
    const mayStop = !isShort || this.#constraint !== undefined;
    if (mayStop && this.#stopTokenIds.has(tokenId)) return { kind: "finished", reason: "stop" };
    if (this.outputTokens >= this.outputTokensMax) return { kind: "finished", reason: "length" };
    try {
      this.#constraint?.accept(tokenId);
    } catch (error) {
      return { kind: "failed", message: messageOf(error) };
    }
    return undefined;
  }
}
