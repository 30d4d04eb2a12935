import type { Rejection } from "../src/pool/offer.ts";
import type { Attainment } from "../src/slo/attainment.ts";
import type { RequestTimeline } from "../src/slo/timeline.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";

/** How one request of a client ended at the gateway. */
export interface RequestRecord {
  readonly spec: ArrivalSpec;
  /** 1 for the first time that the client asked, 2 for its first retry, and so on. */
  readonly tryNumber: number;
  readonly arrivedAtMs: number;
  readonly endedAtMs: number;
  /**
   * `admitted`: a replica was found, whatever it came to. `refused`: a verdict said no.
   * `unserved`: no verdict, since the client left or the pool was gone.
   */
  readonly verdict: "admitted" | "refused" | "unserved";
  /** Whether the request was within what its tenant is guaranteed; absent while nobody has said so. */
  readonly isInProfile: boolean | undefined;
  /** With `refused`. */
  readonly rejection: Rejection | undefined;
  readonly timeline: RequestTimeline;
  readonly attainment: Attainment;
  /** How often it was sent to a replica. */
  readonly dispatches: number;
  /** From the last dispatch to the first token. */
  readonly firstTokenAfterMs: number | undefined;
  /** Prompt tokens that the replica had computed before; absent unless the answer is whole. */
  readonly cachedTokens: number | undefined;
}
