import { WrongUse } from "../command.ts";

/** What makes an answer good: no metric of it above its limit, in ms. */
export interface Goals {
  readonly ttft?: number;
  readonly tpot?: number;
  /** End to end, by vLLM's word. */
  readonly e2el?: number;
  /** The longest gap between two chunks. */
  readonly tbt?: number;
}

/** What of an answer is held against goals. */
export interface JudgedAnswer {
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly e2eMs: number;
  readonly longestGapMs: number;
}

const NAMES = ["ttft", "tpot", "e2el", "tbt"] as const;
const isName = (text: string): text is (typeof NAMES)[number] =>
  NAMES.some((name) => name === text);

/** Reads goals as `vllm bench serve --goodput` takes them: `ttft:500 tpot:30`, in ms. Throws `WrongUse`. */
export function parseGoals(text: string): Goals {
  const goals: Partial<Record<(typeof NAMES)[number], number>> = {};
  for (const part of text.split(/[\s,]+/).filter((word) => word !== "")) {
    const [name = "", limit = "", ...rest] = part.split(":");
    const ms = Number(limit);
    if (!isName(name) || rest.length > 0 || limit === "" || !(ms > 0) || ms === Infinity) {
      throw new WrongUse(
        `Expected goals such as ttft:500 tpot:30, with ${NAMES.join(", ")}, found "${part}"`,
      );
    }
    if (goals[name] !== undefined) throw new WrongUse(`Expected one limit for ${name}, found two`);
    goals[name] = ms;
  }
  if (Object.keys(goals).length === 0)
    throw new WrongUse("Expected at least one goal such as ttft:500");
  return goals;
}

/** Whether there is anything to meet. */
export function hasGoals(goals: Goals): boolean {
  return Object.keys(goals).length > 0;
}

/** Whether a whole answer meets every goal. */
export function meetsGoals(answer: JudgedAnswer, { ttft, tpot, e2el, tbt }: Goals): boolean {
  return (
    answer.ttftMs <= (ttft ?? Infinity) &&
    answer.tpotMs <= (tpot ?? Infinity) &&
    answer.e2eMs <= (e2el ?? Infinity) &&
    answer.longestGapMs <= (tbt ?? Infinity)
  );
}

/** The goals as a command line has them. */
export function goalsText(goals: Goals): string {
  return Object.entries(goals)
    .map(([name, ms]) => `${name}:${String(ms)}`)
    .join(" ");
}
