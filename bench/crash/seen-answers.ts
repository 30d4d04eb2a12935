import * as z from "zod";

/** What an answer whose end a client saw has cost. */
export interface SeenAnswer {
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** One line of a tenant's export. */
export const UsageLine = z.object({
  number: z.int(),
  request_id: z.string(),
  how: z.string(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
});
export type UsageLine = z.infer<typeof UsageLine>;

export interface RunningTotals {
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

/**
 * Holds what clients saw against what a tenant's ledger says. Returns what does not agree: an answer that was
 * lost or changed, a request that was counted twice, totals that are not the sum of their requests.
 */
export function findDisagreements(
  seen: ReadonlyMap<string, SeenAnswer>,
  lines: readonly UsageLine[],
  totals: RunningTotals,
): readonly string[] {
  const byId = new Map(lines.map((line) => [line.request_id, line]));
  const twice = lines.length - byId.size;
  const lost = [...seen].flatMap(([requestId, answer]) => {
    const line = byId.get(requestId);
    if (line === undefined) return [`${requestId} was seen to end and is not counted`];
    const isExact =
      line.how === "counted" &&
      line.prompt_tokens === answer.promptTokens &&
      line.completion_tokens === answer.outputTokens;
    return isExact ? [] : [`${requestId} is counted otherwise than its client saw`];
  });
  const sum = (name: "prompt_tokens" | "completion_tokens") =>
    lines.reduce((total, line) => total + line[name], 0);
  const sums = { requests: lines.length, prompt_tokens: sum("prompt_tokens") };
  const isSum =
    totals.requests === sums.requests &&
    totals.prompt_tokens === sums.prompt_tokens &&
    totals.completion_tokens === sum("completion_tokens");
  return [
    ...lost,
    ...(twice === 0 ? [] : [`${twice} requests are counted twice`]),
    ...(isSum ? [] : ["the totals are not the sum of what was counted"]),
  ];
}
