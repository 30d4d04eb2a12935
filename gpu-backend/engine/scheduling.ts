/** In which order requests are served; see `urgencyOf`. */
export type Policy = "fcfs" | "priority" | "least-slack";

/**
 * Whom the KV pool takes in: whoever's known tokens fit, or only who, by what is expected of all
 * outputs, fits to its end, so that nobody has to be preempted.
 */
export type KvAdmissionRule = "known" | "past-future";

/** Whether a tenant may use more of the KV pool than its share while others leave it unused. */
export type Isolation = "borrow" | "strict";

/** How an operator wants steps and memory to be shared out. */
export interface Scheduling {
  readonly policy: Policy;
  /** False: a prompt is computed in one step or waits for one that has room for all of it. */
  readonly chunkedPrefill: boolean;
  /** Steps have no more prefill than keeps the TBT targets of those that decode. */
  readonly keepsTbt: boolean;
  readonly kvAdmission: KvAdmissionRule;
  /** Equal parts of the KV pool, one for each of so many tenants; 1: the pool is everybody's. */
  readonly kvShares: number;
  readonly isolation: Isolation;
}
