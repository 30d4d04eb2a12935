import type { Contender } from "./policy-run.ts";

/** One setting of each knob that is tried for a policy that has one. */
function tried<Value extends number>(
  name: string,
  policy: Contender["policy"],
  values: readonly Value[],
  settingsOf: (value: Value) => Contender["settings"],
): Contender[] {
  return values.map((value) => ({
    name,
    policy,
    knob: String(value),
    settings: settingsOf(value),
  }));
}

const alone = (
  name: string,
  policy: Contender["policy"],
  settings: Contender["settings"] = {},
): Contender => ({ name, policy, knob: "", settings });

export const OURS = "**Sluice**";

/** All that are compared, each with every setting that is tried; ours has none to try. */
export const CONTENDERS: readonly Contender[] = [
  alone("FIFO, round robin", "round-robin"),
  alone("least outstanding", "least-outstanding"),
  ...tried("concurrency limit", "concurrency-limit", [40, 48, 56, 64], (outstandingMax) => ({
    outstandingMax,
  })),
  ...tried("request buckets, exact", "rate-bucket", [1, 10], (seconds) => ({
    soldRatio: 1,
    burstMs: 1000 * seconds,
  })),
  ...tried("request buckets, 1.5× sold", "rate-bucket", [1, 10], (seconds) => ({
    soldRatio: 1.5,
    burstMs: 1000 * seconds,
  })),
  ...tried("AIMD limit", "aimd-limit", [40, 56], (limitOfEach) => ({ limitOfEach })),
  alone("cache-aware (SGLang)", "cache-aware"),
  ...tried("saturation shed (llm-d)", "saturation-shed", [0.25, 0.5, 1], (thresholdRatio) => ({
    thresholdRatio,
  })),
  ...tried("predicted latency (llm-d)", "predicted-latency", [1, 0.8, 0.6], (bufferRatio) => ({
    bufferRatio,
  })),
  ...tried(
    "deadline queue, DRR (Dynamo)",
    "deadline-queue",
    [40, 48, 56, 64],
    (outstandingMax) => ({
      outstandingMax,
    }),
  ),
  ...tried(
    "most violated first (AIBrix)",
    "most-violated-first",
    [40, 48, 56, 64],
    (outstandingMax) => ({ outstandingMax }),
  ),
  alone(OURS, "sluice"),
];
