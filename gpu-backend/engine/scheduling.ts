/** In which order requests are served; see `urgencyOf`. */
export type Policy = "fcfs" | "priority" | "least-slack";

/**
 * Whom the KV pool takes in: whoever's known tokens fit, or only who, by what is expected of all
 * outputs, fits to its end, so that nobody has to be preempted.
 */
export type KvAdmissionRule = "known" | "past-future";

/** How an operator wants steps and memory to be shared out. */
export interface Scheduling {
  readonly policy: Policy;
  /** Steps have no more prefill than keeps the TBT targets of those that decode. */
  readonly keepsTbt: boolean;
  readonly kvAdmission: KvAdmissionRule;
}
