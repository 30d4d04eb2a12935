import type { KvVersion } from "../kv-tiers/kv-block-file.ts";

/** What the thread that serves HTTP asks of the engine's thread, for an engine elsewhere that wants KV. */
export type LendCall =
  /** Answered with how many blocks of the beginning are held for it from now on. */
  | {
      readonly kind: "open";
      readonly call: number;
      readonly lease: string;
      readonly version: KvVersion;
      readonly hashes: readonly string[];
    }
  /** Answered with the bytes of these blocks, one behind the other. */
  | {
      readonly kind: "read";
      readonly call: number;
      readonly lease: string;
      readonly from: number;
      readonly count: number;
    };

/** How a lease was opened, or why not. */
export type LeaseAnswer =
  | { readonly kind: "opened"; readonly blocks: number }
  | { readonly kind: "busy" }
  | { readonly kind: "mismatch"; readonly message: string };

/** What came of a fetch. `refused`: the peer has KV of another model, or will not have us. */
export type FetchOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "failed" | "refused"; readonly message: string };

/** To the engine's thread, on the port that KV goes by. */
export type ToEngine =
  | LendCall
  | { readonly kind: "close"; readonly lease: string }
  /** Sound blocks, from one with this index among those that were asked for. */
  | {
      readonly kind: "blocks";
      readonly fetch: number;
      readonly from: number;
      readonly bytes: Uint8Array;
    }
  | { readonly kind: "fetched"; readonly fetch: number; readonly outcome: FetchOutcome };

/** What is to be had from a peer. */
export interface PeerFetch {
  readonly fetch: number;
  readonly url: string;
  readonly version: KvVersion;
  readonly hashes: readonly string[];
}

/** From the engine's thread. */
export type FromEngine =
  | { readonly kind: "lease"; readonly call: number; readonly answer: LeaseAnswer }
  | {
      readonly kind: "bytes";
      readonly call: number;
      readonly bytes: Uint8Array<ArrayBuffer> | undefined;
    }
  | ({ readonly kind: "fetch" } & PeerFetch)
  /** Nobody waits for it any more. */
  | { readonly kind: "give-up"; readonly fetch: number };
