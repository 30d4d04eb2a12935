/** Servers that are not ours, by the names that a configuration calls them. */
export const FOREIGN_ENGINES = [
  "vllm",
  "sglang",
  "trtllm",
  "tgi",
  "llamacpp",
  "dynamo",
  "ollama",
  "openai",
] as const;
export type ForeignEngine = (typeof FOREIGN_ENGINES)[number];

/** What a pool's replicas may be: our own engine, which dials in and reports, or one that is asked. */
export const ENGINES = ["sluice", ...FOREIGN_ENGINES] as const;
export type Engine = (typeof ENGINES)[number];

/** Those that can serve the more urgent request first, if they are started so and told which one that is. */
export const PRIORITY_ENGINES = ["vllm", "sglang", "trtllm", "dynamo"] as const;

/** Whether a server of a kind can be told how urgent a request is. */
export function canTakePriorities(engine: Engine): boolean {
  return PRIORITY_ENGINES.some((able) => able === engine);
}
