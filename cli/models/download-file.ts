import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandFailure, messageOf } from "../command.ts";
import { askHub, type HubAccess, refusalOf } from "./hub-client.ts";
import type { RemoteFile } from "./repository-listing.ts";
import { withRetries } from "./with-retries.ts";

/** What a download is a part of. */
export interface DownloadTarget {
  readonly repository: string;
  readonly commit: string;
  /** Where contents lie, by their checksums. */
  readonly blobFolder: string;
  /** Hears of every stretch that is there, whether it came now or before; less than none where a part was in vain. */
  readonly onBytes: (byteCount: number) => void;
}

/**
 * Downloads a file's content, or the rest of it if an earlier download was cut off, and checks it. A
 * connection that breaks is tried again from there on. Throws `CommandFailure`; what had come stays.
 */
export async function downloadFile(
  access: HubAccess,
  file: RemoteFile,
  target: DownloadTarget,
): Promise<void> {
  const path = join(target.blobFolder, file.blobId);
  if ((await sizeOf(path)) === file.byteLength) {
    target.onBytes(file.byteLength);
    return;
  }
  const part = await PartFile.open(path, file, target.onBytes);
  try {
    let lastByteLength = -1;
    await withRetries(
      file.path,
      access.retryDelayMs,
      async () => {
        lastByteLength = part.byteLength;
        if (part.byteLength < file.byteLength || file.byteLength === 0) {
          await fetchRest(access, file, target, part);
        }
      },
      () => part.byteLength > lastByteLength,
    );
    await part.finish(path);
  } finally {
    await part.close();
  }
}

async function fetchRest(
  access: HubAccess,
  file: RemoteFile,
  { repository, commit }: DownloadTarget,
  part: PartFile,
): Promise<void> {
  const path = `/${repository}/resolve/${commit}/${encodeURIComponent(file.path)}`;
  const headers: Record<string, string> = {};
  if (part.byteLength > 0) {
    headers["range"] = `bytes=${part.byteLength}-`;
    if (part.etag !== undefined) headers["if-range"] = part.etag;
  }
  const { response, heard, release } = await askHub(access, path, headers);
  try {
    if (!(await acceptAnswer(response, access, file, repository, part))) return;
    for await (const chunk of response.body ?? []) {
      heard();
      if (part.byteLength + chunk.byteLength > file.byteLength) {
        throw new CommandFailure(
          `${file.path} is longer than the ${file.byteLength} bytes it should be`,
        );
      }
      await part.append(chunk);
    }
    if (part.byteLength < file.byteLength) throw new Error("the connection was cut");
  } finally {
    release();
  }
}

/** Makes ready for a body; false where there is none to read. */
async function acceptAnswer(
  response: Response,
  access: HubAccess,
  file: RemoteFile,
  repository: string,
  part: PartFile,
): Promise<boolean> {
  if (response.status === 200) {
    await part.restart();
  } else if (response.status === 206) {
    const expected = `bytes ${part.byteLength}-${file.byteLength - 1}/${file.byteLength}`;
    const found = response.headers.get("content-range") ?? "";
    if (found !== expected) {
      await response.body?.cancel();
      await part.restart();
      throw new Error(`expected ${expected}, found ${found === "" ? "no range" : found}`);
    }
  } else {
    await response.body?.cancel();
    if (response.status === 416) await part.restart();
    throw refusalOf(response, access, repository) ?? new Error(`status ${response.status}`);
  }
  await part.remember(response.headers.get("etag"));
  return true;
}

/** A file that is not whole yet, with the checksum of what there is. */
class PartFile {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #expected: RemoteFile;
  readonly #onBytes: (byteCount: number) => void;
  #hash: Hash;
  #byteLength = 0;
  /** What the server called the content that we have a part of. */
  #etag: string | undefined;

  private constructor(
    path: string,
    file: FileHandle,
    expected: RemoteFile,
    onBytes: (byteCount: number) => void,
  ) {
    this.#path = path;
    this.#file = file;
    this.#expected = expected;
    this.#onBytes = onBytes;
    this.#hash = newHash(expected);
  }

  static async open(
    path: string,
    expected: RemoteFile,
    onBytes: (byteCount: number) => void,
  ): Promise<PartFile> {
    const partPath = `${path}.incomplete`;
    const existing = (await sizeOf(partPath)) ?? 0;
    const file = await open(partPath, existing > 0 ? "r+" : "w");
    const part = new PartFile(partPath, file, expected, onBytes);
    if (existing > expected.byteLength) await part.restart();
    else if (existing > 0) await part.#take(existing);
    return part;
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  get etag(): string | undefined {
    return this.#etag;
  }

  /** Keeps a strong validator, so that the next attempt goes on with the very same content. */
  async remember(etag: string | null): Promise<void> {
    this.#etag = etag !== null && /^"[^"]+"$/.test(etag) ? etag : undefined;
    if (this.#etag !== undefined) await writeFile(etagPathOf(this.#path), this.#etag);
  }

  async append(bytes: Uint8Array): Promise<void> {
    try {
      // A disk that gets full takes a part, and says so only when it is asked again.
      for (let taken = 0; taken < bytes.byteLength;) {
        const left = bytes.byteLength - taken;
        const place = this.#byteLength + taken;
        taken += (await this.#file.write(bytes, taken, left, place)).bytesWritten;
      }
    } catch (error) {
      // A full disk is not the network's fault, and does not pass.
      throw new CommandFailure(`Cannot write ${this.#path}: ${messageOf(error)}`);
    }
    this.#hash.update(bytes);
    this.#byteLength += bytes.byteLength;
    this.#onBytes(bytes.byteLength);
  }

  async restart(): Promise<void> {
    await this.#file.truncate(0);
    this.#onBytes(-this.#byteLength);
    this.#hash = newHash(this.#expected);
    this.#byteLength = 0;
    this.#etag = undefined;
  }

  /** Gives the file its name if it is what it should be; else takes it away. */
  async finish(path: string): Promise<void> {
    if (this.#hash.digest("hex") !== this.#expected.blobId) {
      this.#onBytes(-this.#byteLength);
      await rm(this.#path, { force: true });
      await rm(etagPathOf(this.#path), { force: true });
      throw new CommandFailure(
        `${this.#expected.path} came with another checksum than the hub announces; it was taken away, try again`,
      );
    }
    await this.#file.sync();
    await rename(this.#path, path);
    await rm(etagPathOf(this.#path), { force: true });
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #take(byteLength: number): Promise<void> {
    for await (const chunk of createReadStream(this.#path)) this.#hash.update(chunk);
    this.#byteLength = byteLength;
    this.#onBytes(byteLength);
    this.#etag = await readFile(etagPathOf(this.#path), "utf8").catch(() => undefined);
  }
}

const etagPathOf = (partPath: string) => `${partPath}.etag`;

function newHash({ checksum, byteLength }: RemoteFile): Hash {
  if (checksum === "sha256") return createHash("sha256");
  // What Git names a blob by.
  return createHash("sha1").update(`blob ${byteLength}\0`);
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ size }) => size,
    () => undefined,
  );
}
