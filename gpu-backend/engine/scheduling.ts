/** In which order requests are served; see `urgencyOf`. */
export type Policy = "fcfs" | "priority" | "least-slack";

/** How an operator wants steps and memory to be shared out. */
export interface Scheduling {
  readonly policy: Policy;
  /** Steps have no more prefill than keeps the TBT targets of those that decode. */
  readonly keepsTbt: boolean;
}
