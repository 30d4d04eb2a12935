import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";

const POLL_MS = 5;

/** What the stand-in does otherwise than the hub would on a good day. */
export interface HubFaults {
  /** Cuts the connection after so many bytes of a body, for the first so many requests of large files. */
  readonly cutAfterBytes?: number;
  readonly cuts?: number;
  /** What a client has on its disk: a cut waits for it, since what is under way then is lost. */
  readonly savedBytes?: () => number;
  /** Answers this to every request, or to the first few. */
  readonly status?: number;
  readonly statusTimes?: number;
  /** Sends the whole file whatever range is asked for. */
  readonly ignoresRanges?: boolean;
  /** Sends another part than was asked for. */
  readonly wrongRange?: boolean;
  /** Sends other bytes than the list announces. */
  readonly corrupts?: boolean;
  /** Sends more bytes than the list announces. */
  readonly appends?: boolean;
  readonly silent?: boolean;
  /** Of the list: the text of it, or a change of its object. */
  readonly listing?: string;
}

export interface SeenRequest {
  readonly host: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly range: string | undefined;
  readonly ifRange: string | undefined;
}

export const COMMIT = "0123456789abcdef0123456789abcdef01234567";

/**
 * A hub as huggingface.co behaves: a list with sizes and checksums, small files from its own host, large ones
 * by a redirect to another host that knows nothing of tokens.
 */
export class StandInHub {
  readonly seen: SeenRequest[] = [];
  faults: HubFaults = {};
  /** Lets in who has it; absent: everybody. */
  token: string | undefined;
  readonly #files: ReadonlyMap<string, Buffer>;
  readonly #largeBytesMin: number;
  readonly #hub: Server;
  readonly #storage: Server;
  #answers = 0;

  private constructor(files: Readonly<Record<string, string | Buffer>>, largeBytesMin: number) {
    this.#files = new Map(
      Object.entries(files).map(([name, content]) => [name, Buffer.from(content)]),
    );
    this.#largeBytesMin = largeBytesMin;
    this.#hub = createServer((request, response) => this.#answer("hub", request, response));
    this.#storage = createServer((request, response) => this.#answer("storage", request, response));
  }

  static async start(
    files: Readonly<Record<string, string | Buffer>>,
    largeBytesMin = 1000,
  ): Promise<StandInHub> {
    const hub = new StandInHub(files, largeBytesMin);
    for (const server of [hub.#hub, hub.#storage]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    }
    return hub;
  }

  get url(): string {
    return urlOf(this.#hub);
  }

  async stop(): Promise<void> {
    for (const server of [this.#hub, this.#storage]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  #answer(host: string, request: IncomingMessage, response: ServerResponse): void {
    const { url: path = "", headers } = request;
    const { authorization, range } = headers;
    const ifRange = headers["if-range"];
    const seenIfRange = typeof ifRange === "string" ? ifRange : undefined;
    this.seen.push({ host, path, authorization, range, ifRange: seenIfRange });
    this.#answers += 1;
    const { faults } = this;
    if (faults.silent === true) return;
    if (faults.status !== undefined && this.#answers <= (faults.statusTimes ?? Infinity)) {
      response.writeHead(faults.status).end();
      return;
    }
    const isLetIn = this.token === undefined || authorization === `Bearer ${this.token}`;
    if (host === "hub" && !isLetIn) {
      response.writeHead(401).end();
      return;
    }
    if (path.startsWith("/api/models/org/model/revision/")) {
      response.end(faults.listing ?? JSON.stringify(this.#listing()));
      return;
    }
    const name = decodeURIComponent(path.split("/").at(-1) ?? "");
    const content = this.#files.get(name);
    if (content === undefined) response.writeHead(404).end();
    else if (host === "hub" && content.length >= this.#largeBytesMin) {
      response.writeHead(302, { location: `${urlOf(this.#storage)}/signed/${name}` }).end();
    } else this.#send(content, range, seenIfRange, response);
  }

  #send(
    whole: Buffer,
    range: string | undefined,
    ifRange: string | undefined,
    response: ServerResponse,
  ): void {
    const { faults } = this;
    const etag = `"${sha256(whole)}"`;
    let content = Buffer.from(whole);
    if (faults.corrupts === true) content[content.length - 1] = (content.at(-1) ?? 0) ^ 1;
    if (faults.appends === true) content = Buffer.concat([content, Buffer.from("more")]);
    const [, asked] = /^bytes=(\d+)-$/.exec(range ?? "") ?? [];
    const isFresh = ifRange === undefined || ifRange === etag;
    const start = asked === undefined || !isFresh || faults.ignoresRanges ? 0 : Number(asked);
    if (start >= content.length && start > 0) {
      response.writeHead(416).end();
      return;
    }
    const sentStart = start > 0 && faults.wrongRange ? start - 1 : start;
    const body = content.subarray(sentStart);
    const contentRange = `bytes ${sentStart}-${content.length - 1}/${content.length}`;
    response.writeHead(start > 0 ? 206 : 200, {
      etag,
      "content-length": body.length,
      ...(start > 0 && { "content-range": contentRange }),
    });
    const cut = faults.cutAfterBytes;
    if (cut !== undefined && body.length > cut && this.#takeCut()) {
      response.write(body.subarray(0, cut));
      void this.#cut(response, sentStart + cut);
    } else response.end(body);
  }

  #cutsDone = 0;
  #takeCut(): boolean {
    this.#cutsDone += 1;
    return this.#cutsDone <= (this.faults.cuts ?? Infinity);
  }

  async #cut(response: ServerResponse, sentBytes: number): Promise<void> {
    const { savedBytes = () => sentBytes } = this.faults;
    while (savedBytes() < sentBytes && !response.destroyed) await setTimeout(POLL_MS);
    response.destroy();
  }

  #listing(): object {
    return {
      id: "org/model",
      sha: COMMIT,
      siblings: [...this.#files].map(([rfilename, content]) => ({
        rfilename,
        size: content.length,
        blobId: gitBlobId(content),
        ...(content.length >= this.#largeBytesMin && {
          lfs: { sha256: sha256(content), size: content.length, pointerSize: 130 },
        }),
      })),
    };
  }
}

const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");
const gitBlobId = (content: Buffer) =>
  createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");

function urlOf(server: Server): string {
  const address = server.address();
  if (!isAddress(address)) throw new Error("the stand-in has stopped");
  return `http://127.0.0.1:${address.port}`;
}

function isAddress(address: ReturnType<Server["address"]>): address is AddressInfo {
  return typeof address === "object" && address !== null;
}
