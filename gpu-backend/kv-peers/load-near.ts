import type { KvLender } from "./kv-lender.ts";
import type { FetchOutcome, PeerFetch } from "./kv-messages.ts";
import { pieceBlocksOf } from "./piece-blocks.ts";

/**
 * Takes KV from an engine of this process, under the lease that one elsewhere would have. What its thread has
 * copied out of its pool is handed on as it is: there is no HTTP in between, and nothing that could garble it.
 */
export async function loadNear(
  lender: KvLender,
  { version, hashes }: Pick<PeerFetch, "version" | "hashes">,
  {
    signal,
    pass,
  }: {
    readonly signal: AbortSignal;
    /** Takes over the bytes of whole blocks, from one with this index among those asked for. */
    readonly pass: (from: number, bytes: Uint8Array<ArrayBuffer>) => void;
  },
): Promise<FetchOutcome> {
  const lease = await lender.lend(version, hashes);
  if (lease === undefined) return { kind: "failed", message: "its engine has ended" };
  if (lease.kind === "mismatch") return { kind: "refused", message: lease.message };
  if (lease.kind === "busy") return { kind: "failed", message: "it lends to as many as it may" };
  try {
    const pieceBlocks = pieceBlocksOf(version.blockBytes);
    let from = 0;
    while (from < lease.blocks && !signal.aborted) {
      const count = Math.min(pieceBlocks, lease.blocks - from);
      // oxlint-disable-next-line no-await-in-loop -- no more than a piece is copied between two of its steps
      const bytes = await lease.read(from, count);
      if (bytes?.byteLength !== count * version.blockBytes) {
        return {
          kind: "failed",
          message: "the lease has ended: what runs there needed its blocks",
        };
      }
      pass(from, bytes);
      from += count;
    }
    return { kind: "done" };
  } finally {
    lease.close();
  }
}
