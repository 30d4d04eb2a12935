import type { ServerResponse } from "node:http";
import type { Handler } from "hono";
import * as z from "zod";
import { KV_BLOCK_COUNT_HEADER, KvBlocksRequest } from "../../src/protocol/kv-blocks.ts";
import { LEASE_MS } from "../kv-peers/kv-exchange.ts";
import type { KvLender, OpenLease } from "../kv-peers/kv-lender.ts";
import { pieceBlocksOf } from "../kv-peers/piece-blocks.ts";
import { encodeBlock, fileBytesOf, KV_LAYOUT } from "../kv-tiers/kv-block-file.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import { ProblemError } from "./problem-error.ts";
import { readRequest } from "./read-request.ts";

const SCHEMAS = { request: KvBlocksRequest, inert: z.object({}) };
/** Leases end within so long. */
const BUSY_RETRY_MS = LEASE_MS;

/**
 * Gives another engine the KV of a beginning, as far as there is any: block by block, each with its checksum.
 * Who has no right to a namespace has not the salt, and so no hash of anything in it.
 */
export function lendKv(context: AppContext): Handler<EngineEnvironment> {
  return async (c) => {
    const { kvLender } = context;
    // Without a secret whoever is on this machine could ask.
    if (kvLender === undefined) throw new ProblemError({ code: "not_found" });
    return readRequest(context, c, SCHEMAS, async ({ version, hashes }) => {
      const blockBytes = version.block_bytes;
      const lease = await openLease(kvLender, version, hashes);
      const headers = {
        "content-type": "application/octet-stream",
        "content-length": String(lease.blocks * fileBytesOf(blockBytes)),
        [KV_BLOCK_COUNT_HEADER]: String(lease.blocks),
      };
      return c.body(blockStream(lease, blockBytes, c.env.outgoing), 200, headers);
    });
  };
}

async function openLease(
  kvLender: KvLender,
  version: KvBlocksRequest["version"],
  hashes: readonly string[],
): Promise<OpenLease> {
  if (version.layout !== KV_LAYOUT) {
    const message = `This engine has KV of layout ${KV_LAYOUT}, not ${version.layout}`;
    throw new ProblemError({ code: "kv_mismatch", message });
  }
  const { model_revision: modelRevision, block_tokens: blockTokens } = version;
  const own = { modelRevision, blockTokens, blockBytes: version.block_bytes };
  const lease = await kvLender.lend(own, hashes);
  if (lease === undefined) throw new ProblemError({ code: "server_is_overloaded" });
  if (lease.kind === "mismatch") {
    throw new ProblemError({ code: "kv_mismatch", message: lease.message });
  }
  if (lease.kind === "busy") {
    throw new ProblemError({ code: "server_is_overloaded", retryAfterMs: BUSY_RETRY_MS });
  }
  return lease;
}

/** Reads a lease as it is read elsewhere. Whoever stops reading loses it, and the connection with it. */
function blockStream(
  lease: OpenLease,
  blockBytes: number,
  outgoing: ServerResponse,
): ReadableStream<Uint8Array> {
  const pieceBlocks = pieceBlocksOf(blockBytes);
  let from = 0;
  let timer: NodeJS.Timeout | undefined;
  const end = () => {
    clearTimeout(timer);
    lease.close();
  };
  outgoing.once("close", end);
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      clearTimeout(timer);
      const count = Math.min(pieceBlocks, lease.blocks - from);
      if (count === 0) {
        end();
        controller.close();
        return;
      }
      const bytes = await lease.read(from, count);
      if (bytes?.byteLength !== count * blockBytes) {
        end();
        controller.error(new Error("The lease has ended: what runs here needed its blocks"));
        return;
      }
      from += count;
      controller.enqueue(encodeAll(bytes, blockBytes));
      timer = setTimeout(() => outgoing.destroy(), LEASE_MS);
    },
    cancel: end,
  });
}

function encodeAll(bytes: Uint8Array, blockBytes: number): Uint8Array {
  const files: Uint8Array[] = [];
  for (let start = 0; start < bytes.byteLength; start += blockBytes) {
    files.push(encodeBlock(bytes.subarray(start, start + blockBytes)));
  }
  return Buffer.concat(files);
}
