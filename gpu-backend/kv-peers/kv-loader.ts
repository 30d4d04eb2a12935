import type { MessagePort } from "node:worker_threads";
import { KV_BLOCKS_PATH, type KvBlocksRequest } from "../../src/protocol/kv-blocks.ts";
import { messageOf } from "../engine/message-of.ts";
import { decodeBlock, fileBytesOf, KV_LAYOUT } from "../kv-tiers/kv-block-file.ts";
import type { FetchOutcome, FromEngine, PeerFetch, ToEngine } from "./kv-messages.ts";
import type { KvNeighbours } from "./kv-neighbours.ts";
import { loadNear } from "./load-near.ts";

/** Blocks go to the engine's thread in pieces of about so many bytes, as they come. */
const PIECE_BYTES = 2 ** 20;

/** Fetches KV from other engines, for the engine's thread, which has chosen whom to ask. */
export class KvLoader {
  readonly #port: MessagePort;
  readonly #secret: string;
  readonly #neighbours: KvNeighbours | undefined;
  readonly #open = new Map<number, AbortController>();

  /** Who is among the neighbours is asked in memory, everybody else over HTTP and with the secret. */
  constructor(port: MessagePort, secret: string, neighbours?: KvNeighbours) {
    this.#port = port;
    this.#secret = secret;
    this.#neighbours = neighbours;
  }

  hear(message: Extract<FromEngine, { kind: "fetch" | "give-up" }>): void {
    if (message.kind === "fetch") void this.#fetch(message);
    else this.#open.get(message.fetch)?.abort();
  }

  /** Ends all that is under way. */
  close(): void {
    for (const abort of this.#open.values()) abort.abort();
  }

  async #fetch(wanted: PeerFetch): Promise<void> {
    const abort = new AbortController();
    this.#open.set(wanted.fetch, abort);
    const outcome = await this.#load(wanted, abort.signal).catch(
      (error: unknown): FetchOutcome => ({ kind: "failed", message: messageOf(error) }),
    );
    this.#open.delete(wanted.fetch);
    // Whatever is left of a body would keep its connection busy.
    abort.abort();
    this.#post({ kind: "fetched", fetch: wanted.fetch, outcome });
  }

  async #load(wanted: PeerFetch, signal: AbortSignal): Promise<FetchOutcome> {
    const neighbour = this.#neighbours?.lenderOf(wanted.url);
    if (neighbour === undefined) return this.#loadFar(wanted, signal);
    return loadNear(neighbour, wanted, {
      signal,
      pass: (from, bytes) => this.#passBlocks(wanted.fetch, from, bytes),
    });
  }

  async #loadFar(wanted: PeerFetch, signal: AbortSignal): Promise<FetchOutcome> {
    const response = await fetch(`${wanted.url}${KV_BLOCKS_PATH}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#secret}`, "content-type": "application/json" },
      body: JSON.stringify(requestOf(wanted)),
      // Following one would send the secret wherever the peer says.
      redirect: "error",
      signal,
    });
    if (response.status !== 200 || response.body === null) {
      const message = `it answered ${response.status}: ${(await response.text()).slice(0, 500)}`;
      const isLasting = response.status < 500 && response.status !== 429;
      return { kind: isLasting ? "refused" : "failed", message };
    }
    const { blockBytes } = wanted.version;
    const reader = new BlockReader(blockBytes, wanted.hashes.length);
    for await (const chunk of response.body) {
      const isSound = reader.push(chunk);
      if (!isSound) this.#pass(wanted.fetch, reader);
      if (!isSound) return { kind: "failed", message: "a block that it sent is not sound" };
      if (reader.readyBlocks * blockBytes >= PIECE_BYTES) this.#pass(wanted.fetch, reader);
    }
    this.#pass(wanted.fetch, reader);
    if (reader.isBetweenBlocks) return { kind: "done" };
    return { kind: "failed", message: "it broke off in the middle of a block" };
  }

  #pass(fetch: number, reader: BlockReader): void {
    const { from, bytes } = reader.take();
    if (bytes.byteLength > 0) this.#passBlocks(fetch, from, bytes);
  }

  #passBlocks(fetch: number, from: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.#post({ kind: "blocks", fetch, from, bytes }, [bytes.buffer]);
  }

  #post(message: ToEngine, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, [...transfer]);
  }
}

function requestOf({ version, hashes }: PeerFetch): KvBlocksRequest {
  return {
    version: {
      layout: KV_LAYOUT,
      model_revision: version.modelRevision,
      block_tokens: version.blockTokens,
      block_bytes: version.blockBytes,
    },
    hashes: [...hashes],
  };
}

/** Puts the chunks of a body together to blocks, each with its checksum, and no more than were asked for. */
export class BlockReader {
  readonly #blockBytes: number;
  readonly #blocksMax: number;
  /** The block that comes, with what stands before it. */
  readonly #frame: Uint8Array;
  #frameBytes = 0;
  #passedBlocks = 0;
  #ready: Uint8Array[] = [];

  constructor(blockBytes: number, blocksMax: number) {
    this.#blockBytes = blockBytes;
    this.#blocksMax = blocksMax;
    this.#frame = new Uint8Array(fileBytesOf(blockBytes));
  }

  get readyBlocks(): number {
    return this.#ready.length;
  }

  get isBetweenBlocks(): boolean {
    return this.#frameBytes === 0;
  }

  /** Returns false if a block is not sound, or one too many: what came before it is. */
  push(chunk: Uint8Array): boolean {
    let start = 0;
    while (start < chunk.byteLength) {
      const part = chunk.subarray(start, start + this.#frame.byteLength - this.#frameBytes);
      this.#frame.set(part, this.#frameBytes);
      this.#frameBytes += part.byteLength;
      start += part.byteLength;
      if (this.#frameBytes === this.#frame.byteLength && !this.#complete()) return false;
    }
    return true;
  }

  /** What is ready, one block behind the other, and the index of the first. */
  take(): { readonly from: number; readonly bytes: Uint8Array<ArrayBuffer> } {
    const from = this.#passedBlocks;
    const bytes = new Uint8Array(this.#ready.length * this.#blockBytes);
    for (const [index, block] of this.#ready.entries()) bytes.set(block, index * this.#blockBytes);
    this.#passedBlocks += this.#ready.length;
    this.#ready = [];
    return { from, bytes };
  }

  #complete(): boolean {
    const block = decodeBlock(this.#frame, this.#blockBytes);
    if (block === undefined || this.#passedBlocks + this.#ready.length >= this.#blocksMax)
      return false;
    this.#ready.push(block.slice());
    this.#frameBytes = 0;
    return true;
  }
}
