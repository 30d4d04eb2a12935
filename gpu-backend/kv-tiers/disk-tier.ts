import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { assert } from "../../src/base/assert.ts";
import { messageOf } from "../engine/message-of.ts";
import { decodeBlock, encodeBlock, fileBytesOf } from "./kv-block-file.ts";

export interface DiskTierOptions {
  /** Of this version's blocks alone; made if it is not there. */
  readonly folder: string;
  readonly bytesMax: number;
  readonly blockBytes: number;
  /** Told once what is wrong, and nothing else is lost but what the tier would have saved. */
  readonly onFault: (message: string) => void;
}

/** What may wait in memory to be written; what comes on top is not stored. */
const WAITING_BYTES_MAX = 2 ** 26;
/** Failures in a row after which nothing more is written in this life. */
const FAILURES_MAX = 8;
const PARTIAL = ".partial";
/** KV tells what it was computed from: it is nobody's but this user's. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const NAME = /^[\w-]{8,64}$/;

/**
 * A bounded number of blocks on disk, one file each, named by its hash: what a replica had is there again
 * after it was started anew, or killed.
 *
 * Files are written beside their place and moved into it, and carry a checksum, so that a crash leaves
 * whole blocks or none. Writes and reads that fail, and a disk that is full, cost what the tier would
 * have saved.
 */
export class DiskTier {
  readonly #options: DiskTierOptions;
  readonly #blocksMax: number;
  /** The longest unused first. */
  readonly #names = new Set<string>();
  readonly #waiting = new Map<string, Uint8Array>();
  /** Counts up with every `clear`, which a write under way has to hear of. */
  #generation = 0;
  #isWriting = false;
  #failures = 0;
  #idleWaiters: (() => void)[] = [];

  /** Takes over what is in the folder, the latest files first where it is more than may be kept. */
  constructor(options: DiskTierOptions) {
    this.#options = options;
    this.#blocksMax = Math.floor(options.bytesMax / fileBytesOf(options.blockBytes));
    try {
      this.#takeOver();
    } catch (error) {
      this.#giveUp(error);
    }
  }

  get blockCount(): number {
    return this.#names.size;
  }

  get byteLength(): number {
    return this.#names.size * fileBytesOf(this.#options.blockBytes);
  }

  /** False once the disk has failed too often to be written to. */
  get isWritable(): boolean {
    return this.#failures < FAILURES_MAX;
  }

  has(hash: string): boolean {
    return this.#names.has(hash);
  }

  /** Blocks that may be put now. */
  get writesLeft(): number {
    if (!this.isWritable || this.#blocksMax === 0) return 0;
    const { blockBytes } = this.#options;
    return Math.max(1, Math.floor(WAITING_BYTES_MAX / blockBytes)) - this.#waiting.size;
  }

  /** Whether a block is neither here nor on its way, so that it is worth copying. */
  wants(hash: string): boolean {
    return !this.has(hash) && !this.#waiting.has(hash) && NAME.test(hash);
  }

  /** Stores a block some time soon, if it is wanted and may be. The bytes are the tier's from now on. */
  put(hash: string, bytes: Uint8Array): void {
    if (this.writesLeft <= 0 || !this.wants(hash)) return;
    this.#waiting.set(hash, bytes);
    if (!this.#isWriting) void this.#write();
  }

  /** Counts blocks as used, the first of them as used last. Those that are not there are not looked at. */
  touch(hashes: readonly string[]): void {
    for (const hash of hashes.toReversed()) if (this.#names.delete(hash)) this.#names.add(hash);
  }

  /** Reads a block; `undefined` if it is not there or not sound, in which case it is there no more. */
  async get(hash: string): Promise<Uint8Array | undefined> {
    if (!this.has(hash)) return undefined;
    const file = await readFile(this.#pathOf(hash)).catch(() => undefined);
    const bytes = file && decodeBlock(file, this.#options.blockBytes);
    if (bytes === undefined) await this.#drop(hash);
    return bytes;
  }

  /** Resolves once nothing waits to be written. */
  async whenIdle(): Promise<void> {
    if (!this.#isWriting) return;
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  clear(): void {
    this.#waiting.clear();
    this.#generation += 1;
    for (const hash of this.#names) void this.#drop(hash);
  }

  /** Throws unless it keeps to its bounds. */
  checkInvariants(): void {
    assert(this.#names.size <= this.#blocksMax, "A tier keeps no more than its bound");
    assert(this.writesLeft >= 0, "No more wait to be written than may");
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) break;
      const [hash, bytes] = next;
      try {
        await this.#writeOne(hash, bytes);
        this.#failures = 0;
      } catch (error) {
        await rm(this.#pathOf(hash) + PARTIAL, { force: true }).catch(() => undefined);
        this.#failures += 1;
        if (!this.isWritable) this.#giveUp(error);
      }
      if (this.#waiting.get(hash) === bytes) this.#waiting.delete(hash);
    }
    this.#isWriting = false;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }

  async #writeOne(hash: string, bytes: Uint8Array): Promise<void> {
    while (this.#names.size >= this.#blocksMax) {
      const [oldest] = this.#names;
      if (oldest === undefined) break;
      await this.#drop(oldest);
    }
    const path = this.#pathOf(hash);
    const generation = this.#generation;
    await writeFile(path + PARTIAL, encodeBlock(bytes), { mode: FILE_MODE });
    await rename(path + PARTIAL, path);
    this.#names.add(hash);
    if (generation !== this.#generation) await this.#drop(hash);
  }

  async #drop(hash: string): Promise<void> {
    this.#names.delete(hash);
    await rm(this.#pathOf(hash), { force: true }).catch(() => undefined);
  }

  #takeOver(): void {
    const { folder, blockBytes } = this.#options;
    makeFolder(folder);
    const files = readdirSync(folder).flatMap((name) => {
      const stat = statSync(join(folder, name), { throwIfNoEntry: false });
      return stat === undefined ? [] : [{ name, bytes: stat.size, changedAtMs: stat.mtimeMs }];
    });
    const whole = files
      .filter(({ name, bytes }) => NAME.test(name) && bytes === fileBytesOf(blockBytes))
      .toSorted((a, b) => a.changedAtMs - b.changedAtMs);
    const kept = this.#blocksMax === 0 ? [] : whole.slice(-this.#blocksMax);
    for (const { name } of kept) this.#names.add(name);
    const ours = files.filter(({ name }) => NAME.test(name) || name.endsWith(PARTIAL));
    for (const { name } of ours) if (!this.#names.has(name)) void this.#drop(name);
  }

  #giveUp(error: unknown): void {
    this.#failures = FAILURES_MAX;
    this.#waiting.clear();
    this.#options.onFault(messageOf(error));
  }

  #pathOf(hash: string): string {
    return join(this.#options.folder, hash);
  }
}

/** Where a folder cannot be made although its parent is there, as under /proc, Node's own recursion never ends. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path, { mode: FOLDER_MODE });
}
