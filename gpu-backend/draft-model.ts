import type { Batch, BatchRow } from "./engine/batch.ts";
import type { Executor } from "./engine/executor/executor.ts";
import { GREEDY_SAMPLING } from "./engine/generate-request.ts";
import { BlockChain } from "./engine/kv-cache/block-chain.ts";
import { KvCache } from "./engine/kv-cache/kv-cache.ts";
import { sampleBatch } from "./engine/sample-batch.ts";
import type { Sampler } from "./engine/sampler.ts";
import type { DraftWish } from "./engine/speculation/draft-wishes.ts";
import { StepMeter, type StepSpeed } from "./engine/step-meter.ts";
import { TokenHistory } from "./engine/token-history.ts";

export interface DraftModelOptions {
  readonly executor: Executor;
  readonly sampler: Sampler;
  /** What its warm-up measured. */
  readonly speed: StepSpeed;
  readonly nowMs: () => number;
}

/** What is drafted for one request, and what of its text has KV here. */
interface Drafting {
  readonly id: string;
  readonly wish: DraftWish;
  /** Known tokens, then those drafted. */
  readonly tokens: number[];
  computedTokens: number;
}

/** Tokens of texts that one call reads: the step that waits for it is not to be late for a long prompt. */
const READ_TOKENS_MAX = 128;

/** Nothing is shared between requests here, so no block is ever named. */
const NO_HASHING = { hashBlock: () => "", blockTokens: 1, modelRevision: "" };
const NO_HISTORY = new TokenHistory(GREEDY_SAMPLING, []);

/**
 * A small model that guesses what the served one will say, over a KV pool of its own.
 *
 * It reads a text when it is first asked about it, and from then on only what is new. Each draw is keyed as
 * the served model's will be, so that where both see the same chances both choose the same. Texts that it
 * was asked about longest ago make room for others; one that does not fit is not drafted.
 */
export class DraftModel {
  readonly meter: StepMeter;
  readonly #options: DraftModelOptions;
  readonly #kvCache: KvCache;
  /** What has KV, by request, the one asked about longest ago first. */
  readonly #computed = new Map<string, readonly number[]>();

  constructor(options: DraftModelOptions) {
    this.#options = options;
    this.meter = new StepMeter(options.speed);
    const { blockCount, blockTokens } = options.executor;
    this.#kvCache = new KvCache({ blockCount, blockTokens, prefixCache: false });
  }

  /** Requests whose text is kept. */
  get textCount(): number {
    return this.#computed.size;
  }

  /**
   * Drafts what each wish asks for, or less, or nothing: a long text is read in several calls. Rejects when
   * the runtime fails; what it has computed is void then.
   */
  async draft(wishes: readonly DraftWish[]): Promise<ReadonlyMap<string, readonly number[]>> {
    const draftings = this.#admit(wishes);
    let room = READ_TOKENS_MAX + wishes.reduce((sum, { draftTokens }) => sum + draftTokens, 0);
    try {
      const drafted = new Map<string, number[]>();
      for (;;) {
        const open = draftings.filter((each) => isOpen(each, drafted));
        const batch = this.#nextBatch(open, room);
        if (batch.rows.length === 0) break;
        room -= batch.totalTokens;
        const chosen = await this.#run(batch);
        for (const { id, tokens, wish } of open) {
          const tokenId = chosen.get(id);
          if (tokenId === undefined) continue;
          tokens.push(tokenId);
          drafted.set(id, tokens.slice(wish.tokens.length));
        }
      }
      for (const { id, tokens, computedTokens } of draftings) {
        this.#computed.set(id, tokens.slice(0, computedTokens));
      }
      return drafted;
    } catch (error) {
      for (const { id } of draftings) this.forget(id);
      throw error;
    }
  }

  /** Lets go of a request's text. */
  forget(id: string): void {
    if (this.#computed.delete(id)) this.#kvCache.release(id);
  }

  /** Throws unless exactly the texts that are kept hold blocks. */
  checkInvariants(): void {
    this.#kvCache.checkInvariants();
    const holders = [...this.#kvCache.holders()];
    if (holders.length !== this.#computed.size || !holders.every((id) => this.#computed.has(id))) {
      throw new Error("Exactly the texts that are kept hold blocks");
    }
  }

  #admit(wishes: readonly DraftWish[]): Drafting[] {
    const asked = new Set(wishes.map(({ id }) => id));
    const { contextTokens } = this.#options.executor;
    return wishes.flatMap((wish): Drafting[] => {
      const { id, tokens, draftTokens } = wish;
      const endTokens = tokens.length + draftTokens;
      if (endTokens > contextTokens || !this.#holds(id, endTokens, asked)) return [];
      const kept = this.#computed.get(id) ?? [];
      // The last token is computed in any case: what comes behind it is wanted.
      let computedTokens = 0;
      const computedMax = Math.min(kept.length, tokens.length - 1);
      while (computedTokens < computedMax && kept[computedTokens] === tokens[computedTokens]) {
        computedTokens += 1;
      }
      this.#computed.delete(id);
      this.#computed.set(id, kept.slice(0, computedTokens));
      return [{ id, wish, tokens: [...tokens], computedTokens }];
    });
  }

  /** Finds blocks for so many tokens, in place of texts that nobody asks about now. */
  #holds(id: string, tokens: number, asked: ReadonlySet<string>): boolean {
    while (!this.#takeBlocks(id, tokens)) {
      const victim = [...this.#computed.keys()].find((other) => !asked.has(other));
      if (victim === undefined) {
        this.forget(id);
        return false;
      }
      this.forget(victim);
    }
    return true;
  }

  #takeBlocks(id: string, tokens: number): boolean {
    if (this.#computed.has(id)) return this.#kvCache.extend(id, tokens);
    const hitTokens = this.#kvCache.admit({
      id,
      tenant: "",
      chain: new BlockChain(NO_HASHING, "", []),
      knownTokens: tokens,
      readsCache: false,
      reservedBlocks: 0,
      isResumed: false,
    });
    if (hitTokens !== undefined) this.#computed.set(id, []);
    return hitTokens !== undefined;
  }

  /** The next tokens of each, those that lack the fewest first, as many as there is room for. */
  #nextBatch(draftings: readonly Drafting[], roomTokens: number): Batch {
    let room = Math.min(roomTokens, this.#options.executor.batchTokensMax);
    const ordered = draftings.toSorted((a, b) => lackOf(a) - lackOf(b));
    const rows = ordered.flatMap((each): BatchRow[] => {
      const { id, wish, tokens, computedTokens } = each;
      const count = Math.min(room, lackOf(each));
      if (count <= 0) return [];
      room -= count;
      each.computedTokens += count;
      const isLast = each.computedTokens === tokens.length;
      const outputIndex = wish.outputIndex + tokens.length - wish.tokens.length;
      return [
        {
          sequenceId: id,
          tokens: Int32Array.from(tokens.slice(computedTokens, each.computedTokens)),
          startPosition: computedTokens,
          blockTable: this.#kvCache.blockTable(id, each.computedTokens),
          output: isLast ? "last" : "none",
          outputIndex,
          ...(isLast && { choice: choiceOf(wish, outputIndex) }),
        },
      ];
    });
    return { rows, totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0) };
  }

  async #run(batch: Batch): Promise<ReadonlyMap<string, number>> {
    const { executor, sampler, nowMs } = this.#options;
    const startedAtMs = nowMs();
    const results = sampleBatch(sampler, batch, await executor.run(batch));
    const endedAtMs = nowMs();
    this.meter.record(batch, endedAtMs - startedAtMs, endedAtMs);
    const chosen = new Map<string, number>();
    for (const [index, result] of results.entries()) {
      const tokenId = result.kind === "computed" ? result.chosen?.[0]?.tokenId : undefined;
      const id = batch.rows[index]?.sequenceId;
      if (tokenId !== undefined && id !== undefined) chosen.set(id, tokenId);
    }
    return chosen;
  }
}

function lackOf({ tokens, computedTokens }: Drafting): number {
  return tokens.length - computedTokens;
}

function isOpen({ id, wish }: Drafting, drafted: ReadonlyMap<string, readonly number[]>): boolean {
  return (drafted.get(id)?.length ?? 0) < wish.draftTokens;
}

/** Penalties and constraints are the served model's affair: a guess that breaks them does not hold. */
function choiceOf({ sampling }: DraftWish, outputIndex: number) {
  const { temperature, topK, topP, minP, seed } = sampling;
  return {
    sampling: { ...GREEDY_SAMPLING, temperature, topK, topP, minP, seed },
    outputIndex,
    history: NO_HISTORY,
    forbiddenTokenIds: [],
  };
}
