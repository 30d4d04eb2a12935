import { type Random, seededRandom } from "../../src/base/random.ts";
import { quantileOf } from "../../simulator/statistics.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import { type PinnedEngine, startPinnedEngine } from "./pinned-engine.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { type Hardware, type LoadPart, sendLoad, type Served, SPLIT_SECRET } from "./split-load.ts";
import { takeTurns } from "./take-turns.ts";

type Side = "mixed" | "mixed, chunks of 64" | "split";

interface Mix {
  readonly name: string;
  readonly parts: readonly LoadPart[];
  readonly sides: readonly Side[];
}

const MIXES: readonly Mix[] = [
  {
    name: "few long prompts beside answers",
    parts: [
      { perSecond: 0.7, promptTokens: 1500, outputTokens: 16 },
      { perSecond: 2, promptTokens: 48, outputTokens: 128 },
    ],
    sides: ["mixed", "mixed, chunks of 64", "split"],
  },
  {
    name: "many long prompts",
    parts: [
      { perSecond: 2, promptTokens: 1500, outputTokens: 8 },
      { perSecond: 1, promptTokens: 48, outputTokens: 64 },
    ],
    sides: ["mixed", "split"],
  },
  {
    name: "answers alone",
    parts: [{ perSecond: 11, promptTokens: 48, outputTokens: 200 }],
    sides: ["mixed", "split"],
  },
];

const BATCH_TOKENS_MAX = { mixed: 256, "mixed, chunks of 64": 64, split: 256 } as const;
const WINDOW_MS = 8_000;
const CORES = [0, 1] as const;
/** What a request is to have: its first token, and the mean of its gaps. */
const TTFT_MS = 1_500;
const TPOT_MS = 20;
/** From one turn to the next prompts are others, so that nothing is found cached. */
const REQUESTS_PER_WINDOW_MAX = 10_000;
const TURNS_MAX = 1_001;

/** What a window had. */
interface Window {
  readonly gapP99Ms: number;
  /** Of each part of the mix. */
  readonly ttftP50Ms: readonly number[];
  readonly goodPerSecond: number;
}

export const SPLIT: Section = {
  title: "Split",
  published:
    "DistServe 2024: 2.0 to 7.4 times the rate of vLLM without chunked prefill, or targets 12.6 times as strict, OPT 13B to 175B on A100s with NVLink. vLLM's own documentation: disaggregation does not improve throughput; it tunes TTFT and TBT apart",
  how: `two engines of one core each, over HTTP, open loop for ${WINDOW_MS / 1000} s a turn: one that prefills and one that decodes, against two that do both. Prompts of 128 tokens and more go by the prefill; a router of this benchmark sends the rest where fewest are open. Wall-clock time. Good is a request with a first token within ${TTFT_MS} ms and a mean gap of at most ${TPOT_MS} ms. ÷ is mixed over split, above 1 where split is shorter; × is split over mixed`,
  why: "Apart, no answer waits for a chunk of a prompt: what is left of its gaps are decode steps, the blocks that are copied into the pool between them, and the HTTP of the same core, which the curve does not have. What that costs is the idle half: prompts have one core instead of two, and so have answers, so that either saturates at half the rate. DistServe fills each phase with as many GPUs as it needs, moves KV over NVLink, and has no chunked prefill on the other side; against small chunks there is less to gain here as well",
  predicts: true,
  measure,
};

async function measure({ machine, curve, repeats, random }: Conditions): Promise<Row[]> {
  const [precision = "", runtime = ""] = machine.name.split(", ");
  const engines: PinnedEngine[] = [];
  const start = async (core: number, ...flags: readonly string[]) => {
    const common = ["--precision", precision, "--runtime", runtime, "--speculation", "off"];
    const all = [...common, "--kv-blocks", "2048", "--max-queue", "512", ...flags];
    const engine = await startPinnedEngine(core, all, SPLIT_SECRET);
    engines.push(engine);
    return engine.url;
  };
  try {
    const hardware = await startAll(start);
    const rows: Row[] = [];
    for (const [index, mix] of MIXES.entries()) {
      const turns = new Map<Side, number>();
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      const windowsOf = await takeTurns(mix.sides, { repeats, random }, async (side: Side) => {
        const turn = turns.get(side) ?? 0;
        turns.set(side, turn + 1);
        // All sides are sent the same, at the same instants.
        const firstSeed = (index * TURNS_MAX + turn) * REQUESTS_PER_WINDOW_MAX;
        const window = { ms: WINDOW_MS, random: seededRandom(firstSeed), firstSeed };
        return summarize(mix, await sendLoad(hardware[side], mix.parts, window));
      });
      rows.push(...rowsOf(mix, { windowsOf, curve, random }));
    }
    return rows;
  } finally {
    await Promise.all(engines.map((engine) => engine.stop()));
  }
}

async function startAll(
  start: (core: number, ...flags: readonly string[]) => Promise<string>,
): Promise<Record<Side, Hardware>> {
  const [first, second] = CORES;
  const whole = [await start(first), await start(second)];
  const chunks = ["--max-batch-tokens", "64"];
  const chunked = [await start(first, ...chunks), await start(second, ...chunks)];
  const prefillUrl = await start(first, "--role", "prefill");
  const peers = ["--kv-host-mib", "256", "--kv-peers", prefillUrl];
  const decodeUrl = await start(second, "--role", "decode", ...peers);
  return {
    mixed: { urls: whole },
    "mixed, chunks of 64": { urls: chunked },
    split: { urls: [prefillUrl, decodeUrl], prefillUrl },
  };
}

function summarize(mix: Mix, served: readonly Served[]): Window {
  const gaps = served.flatMap(({ gapsMs }) => gapsMs);
  const good = served.filter(({ ttftMs = Infinity, gapsMs, isComplete }) => {
    const tpotMs = gapsMs.reduce((sum, gap) => sum + gap, 0) / Math.max(1, gapsMs.length);
    return isComplete && ttftMs <= TTFT_MS && tpotMs <= TPOT_MS;
  });
  return {
    gapP99Ms: quantileOf(gaps, 0.99),
    ttftP50Ms: mix.parts.map((part) => {
      const ofPart = served.filter((one) => one.part === part);
      // Those of which nothing came are later than all others.
      return medianOf(ofPart.map(({ ttftMs = WINDOW_MS }) => ttftMs));
    }),
    // None counts as one, so that there is a ratio.
    goodPerSecond: Math.max(1, good.length) / (WINDOW_MS / 1000),
  };
}

function rowsOf(
  mix: Mix,
  parts: {
    readonly windowsOf: (side: Side) => readonly Window[];
    readonly random: Random;
    readonly curve: Conditions["curve"];
  },
): Row[] {
  const { windowsOf, random, curve } = parts;
  const split = windowsOf("split");
  return mix.sides
    .filter((side) => side !== "split")
    .map((side) => {
      const others = windowsOf(side);
      const compare = (valueOf: (window: Window) => number, digits: number, isMore = false) => {
        const [theirs, ours] = [others.map(valueOf), split.map(valueOf)];
        const ratio = isMore ? ratioOf(ours, theirs, random) : ratioOf(theirs, ours, random);
        const [from, to] = [theirs, ours].map((values) => medianOf(values).toFixed(digits));
        return `${show(ratio)} (${from} → ${to}`;
      };
      const ttfts = mix.parts.map(({ promptTokens }, index) => {
        const compared = compare(({ ttftP50Ms }) => ttftP50Ms[index] ?? Number.NaN, 0);
        return `TTFT p50 of ${promptTokens} tokens ÷ ${compared} ms)`;
      });
      return {
        what: `${mix.name} (${mix.parts.map(describePart).join(", ")}): split against ${side}`,
        ours: [
          `p99 of TBT ÷ ${compare(({ gapP99Ms }) => gapP99Ms, 1)} ms)`,
          ...ttfts,
          `goodput × ${compare(({ goodPerSecond }) => goodPerSecond, 2, true)} a second)`,
        ].join("; "),
        predicted: predict(mix, BATCH_TOKENS_MAX[side], curve),
      };
    });
}

function describePart({ perSecond, promptTokens, outputTokens }: LoadPart): string {
  return `${perSecond}/s of ${promptTokens} + ${outputTokens} tokens`;
}

const percent = (share: number) => `${Math.round(100 * share)} %`;

/** Of sequences that decode together, and with how much KV each. */
const DECODING = 4;
const DECODING_KV_TOKENS = 400;

/** How much of an engine's core each side needs by the curve, and the longest step beside those that decode. */
function predict(mix: Mix, batchTokensMax: number, curve: Conditions["curve"]): string {
  const decoding = { sequences: DECODING, kvTokens: DECODING * DECODING_KV_TOKENS };
  const decodeMs = curve.predictMs({
    ...decoding,
    tokens: DECODING,
    attendedPairs: decoding.kvTokens,
  });
  const loads = mix.parts.map(({ perSecond, promptTokens, outputTokens }) => ({
    isLong: promptTokens >= 128,
    prefill: (perSecond * prefillMs(curve, promptTokens)) / 1000,
    decode: (perSecond * outputTokens * (decodeMs / DECODING)) / 1000,
  }));
  const prefill = loads.reduce((sum, load) => sum + (load.isLong ? load.prefill : 0), 0);
  const rest = loads.reduce((sum, load) => sum + load.decode + (load.isLong ? 0 : load.prefill), 0);
  const promptMax = Math.max(...mix.parts.map(({ promptTokens }) => promptTokens));
  const chunk = Math.min(batchTokensMax - DECODING, promptMax);
  const before = promptMax - chunk;
  const stepMs = curve.predictMs({
    sequences: DECODING + 1,
    tokens: DECODING + chunk,
    kvTokens: decoding.kvTokens + promptMax,
    attendedPairs: decoding.kvTokens + chunk * before + (chunk * (chunk + 1)) / 2,
  });
  const mixedStep = `${stepMs.toFixed(0)} → ${decodeMs.toFixed(1)} ms`;
  return `longest step ${mixedStep}; busy ${percent((prefill + rest) / 2)} each → prefill ${percent(prefill)}, decode ${percent(rest)}`;
}

function prefillMs(curve: Conditions["curve"], tokens: number): number {
  const attendedPairs = (tokens * (tokens + 1)) / 2;
  return curve.predictMs({ tokens, attendedPairs, sequences: 1, kvTokens: tokens });
}
