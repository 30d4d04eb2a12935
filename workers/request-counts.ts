import type { LabelCount } from "../src/base/label-counts.ts";
import { LabelCounts } from "../src/base/label-counts.ts";
import {
  OTHER_REQUEST_LABELS,
  REQUEST_LABELS_MAX,
  requestLabels,
} from "../src/protocol/request-labels.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { codeOf } from "./error-response.ts";
import type { KeyUses } from "./key-uses.ts";
import { keyUses } from "./key-uses.ts";

/** What an isolate has counted since it sent last. */
export interface CountedRequests {
  /** By route, status and code. */
  readonly requests: readonly LabelCount[];
  /** Parameters of their bodies that the API does not have. */
  readonly unknownParameters: number;
  /** Requests whose key was served, or could not be, while the Directory was away. */
  readonly staleAccesses: number;
  /** Hashes of keys that were used. */
  readonly usedKeys: readonly string[];
}

/** Whoever keeps the counts of all isolates. */
type KeepCounts = (counted: CountedRequests) => Promise<void>;

const SEND_INTERVAL_MS = 1_000;
/** A call that was to send may have died with its invocation; after so long another one does. */
const SENDER_MS_MAX = 10_000;

/**
 * Counts an isolate's requests by route, status and code, and sends the counts on once a second at the
 * most, whatever comes: also what is refused before any object is asked.
 */
export class RequestCounts {
  readonly #counts = new LabelCounts(REQUEST_LABELS_MAX, OTHER_REQUEST_LABELS);
  readonly #keyUses: KeyUses;
  #unknownParameters = 0;
  #staleAccesses = 0;
  #senderBeganAtMs = -Infinity;

  constructor(uses: KeyUses = keyUses) {
    this.#keyUses = uses;
  }

  /** Counts an answer whose head goes out. */
  count(path: string, response: Response): void {
    this.#counts.add(requestLabels(path, response.status, codeOf(response)));
  }

  /** Counts parameters of a body, which is counted as a request once its answer is there. */
  countUnknownParameters(count: number): void {
    this.#unknownParameters += count;
  }

  /** Counts a request that came while the Directory could not say whose it is. */
  countStaleAccess(): void {
    this.#staleAccesses += 1;
  }

  /** Sends what has been counted when a second has passed, unless somebody is about to do so. */
  async sendSoon(keep: KeepCounts): Promise<void> {
    const nowMs = Date.now();
    if (nowMs - this.#senderBeganAtMs < SENDER_MS_MAX) return;
    this.#senderBeganAtMs = nowMs;
    await new Promise((resolve) => setTimeout(resolve, SEND_INTERVAL_MS));
    this.#senderBeganAtMs = -Infinity;
    await this.send(keep);
  }

  /** Sends what has been counted. Never rejects: what does not arrive is sent next time. */
  async send(keep: KeepCounts): Promise<void> {
    const requests = this.#counts.take();
    const usedKeys = this.#keyUses.take();
    const unknownParameters = this.#unknownParameters;
    const staleAccesses = this.#staleAccesses;
    this.#unknownParameters = 0;
    this.#staleAccesses = 0;
    if (requests.length + usedKeys.length + unknownParameters + staleAccesses === 0) return;
    try {
      await keep({ requests, unknownParameters, staleAccesses, usedKeys });
    } catch {
      this.#counts.addAll(requests);
      this.#keyUses.putBack(usedKeys);
      this.#unknownParameters += unknownParameters;
      this.#staleAccesses += staleAccesses;
    }
  }
}

/** Of this isolate. */
export const requestCounts = new RequestCounts();

/** All isolates send what they count to the one object that there always is. */
export function keepCountsOf({ DIRECTORY }: Env): KeepCounts {
  return async (counted) => DIRECTORY.getByName(DIRECTORY_NAME).countRequests(counted);
}
