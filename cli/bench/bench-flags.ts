import * as z from "zod";
import { parseDurationMs } from "../../src/tenants/units.ts";
import { countFlag, FLAG_HELP, flagSwitch } from "../flags.ts";
import { SERVER_FLAGS } from "../server-flags.ts";
import { PRESETS } from "./presets.ts";
import { TokenRange } from "./token-range.ts";

const RATE_MAX = 100_000;

function decimal(expected: string, isRight: (value: number) => boolean) {
  return z
    .string()
    .regex(/^(\d+(\.\d+)?|inf)$/, expected)
    .transform((text) => (text === "inf" ? Infinity : Number(text)))
    .refine(isRight, expected);
}

function duration(expected: string) {
  return z.string().transform((text, context) => {
    const ms = parseDurationMs(text);
    if (ms !== undefined) return ms;
    context.issues.push({ code: "custom", message: expected, input: text });
    return z.NEVER;
  });
}

/** Of no time at all nothing can come, and a timer of Node takes no more milliseconds than 31 bits hold. */
function someTime() {
  return duration(DURATION).refine(
    (ms) => ms > 0 && ms <= MS_MAX,
    "Expected a duration above 0s, of at most 24 days",
  );
}

const MS_MAX = 24 * 86_400_000;
const DURATION = "Expected a duration such as 60s or 5m";
const isRate = (rate: number) => rate > 0 && rate <= RATE_MAX;

export const BENCH_FLAGS = z.object({
  ...SERVER_FLAGS,
  endpoint: z
    .enum(["chat", "completions"], "Expected chat or completions")
    .default("chat")
    .register(FLAG_HELP, { valueName: "NAME", meaning: "chat or completions (chat)" }),
  mix: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Several tenants, each with a key, a weight and lengths of its own: see below",
  }),
  rate: decimal(`Expected requests a second up to ${RATE_MAX}`, isRate)
    .optional()
    .register(FLAG_HELP, { valueName: "N", meaning: "Requests a second, of all tenants (1)" }),
  burstiness: decimal("Expected a number above 0, or inf", (shape) => shape > 0)
    .optional()
    .register(FLAG_HELP, {
      valueName: "N",
      meaning: "Shape of Gamma-distributed gaps: 1 is Poisson, 0.25 bursty, inf a beat (1)",
    }),
  trace: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Play this trace instead (Azure, Mooncake, Bailian or VTC; .gz too)",
  }),
  speed: decimal("Expected a number above 0", (speed) => speed > 0 && speed < Infinity)
    .optional()
    .register(FLAG_HELP, { valueName: "N", meaning: "Play the trace so many times as fast (1)" }),
  duration: someTime()
    .default(60_000)
    .register(FLAG_HELP, { valueName: "TIME", meaning: "How long requests are sent (60s)" }),
  "warm-up": duration(DURATION).optional().register(FLAG_HELP, {
    valueName: "TIME",
    meaning:
      "What was due before this does not count (5s, or half of a shorter --duration than 10s)",
  }),
  preset: z
    .enum(Object.keys(PRESETS), `Expected one of ${Object.keys(PRESETS).join(", ")}`)
    .optional()
    .register(FLAG_HELP, { valueName: "NAME", meaning: "Lengths or limits by name: see below" }),
  "prompt-tokens": TokenRange.optional().register(FLAG_HELP, {
    valueName: "N[..M]",
    meaning: "Length of prompts, drawn evenly (200)",
  }),
  "output-tokens": TokenRange.optional().register(FLAG_HELP, {
    valueName: "N[..M]",
    meaning: "Most tokens of answers, drawn evenly (64)",
  }),
  "ignore-eos": flagSwitch(
    "Have answers be as long as they may, where the server knows ignore_eos",
  ),
  goodput: z.string().optional().register(FLAG_HELP, {
    valueName: "GOALS",
    meaning:
      "What makes an answer good, in ms, as in vLLM: ttft:500 tpot:30 e2el:9000, and tbt:200",
  }),
  "max-concurrency": countFlag(
    { min: 1, max: 20_000, default: 1_000 },
    "So many requests are under way at most",
  ),
  timeout: someTime()
    .default(120_000)
    .register(FLAG_HELP, { valueName: "TIME", meaning: "A longer answer has failed (120s)" }),
  seed: countFlag(
    { min: 0, max: 999_999_999, default: 1 },
    "What arrivals, lengths and words are drawn by",
  ),
  sweep: z
    .string()
    .regex(/^\d+(\.\d+)?\.\.\d+(\.\d+)?$/, "Expected rates such as 1..50")
    .transform((text) => text.split(/\.\.(?=\d)/).map(Number))
    .refine(
      ([from = 0, to = 0]) => isRate(from) && isRate(to) && from < to,
      "Expected rates such as 1..50",
    )
    .optional()
    .register(FLAG_HELP, {
      valueName: "A..B",
      meaning: "Find the highest rate between these that keeps the goals, a run each",
    }),
  "sweep-target": decimal("Expected a share in 0.5 to 1", (share) => share >= 0.5 && share <= 1)
    .optional()
    .register(FLAG_HELP, {
      valueName: "N",
      meaning: "The share of what is offered that has to be good (0.99)",
    }),
  out: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Write the result as JSON, with the fields of vllm bench serve",
  }),
  "save-detailed": flagSwitch("Put the gaps of every request into it as well"),
  html: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Write a report with pictures: one page that needs nothing else",
  }),
  json: flagSwitch("Print the result as JSON instead of a table"),
});
export type BenchFlags = z.output<typeof BENCH_FLAGS>;

const WARM_UP_MS = 5_000;

/** What was due before this does not count; unless it is given, at least half of the load does. */
export function warmUpMsOf(flags: Pick<BenchFlags, "warm-up" | "duration">): number {
  return flags["warm-up"] ?? Math.min(WARM_UP_MS, flags.duration / 2);
}

/** vLLM takes goals as several words; they become one. */
export function joinGoals(words: readonly string[]): string[] {
  const joined: string[] = [];
  let isInGoals = false;
  for (const word of words) {
    const isGoal = /^[a-z0-9]+:\d+(\.\d+)?$/.test(word);
    const last = joined.length - 1;
    if (isInGoals && isGoal && joined[last] !== "--goodput") joined[last] += ` ${word}`;
    else joined.push(word);
    isInGoals = word === "--goodput" || word.startsWith("--goodput=") || (isInGoals && isGoal);
  }
  return joined;
}
