import * as z from "zod";
import { KvNeighbours } from "../../gpu-backend/kv-peers/kv-neighbours.ts";
import { createLog } from "../../gpu-backend/log.ts";
import { type RunningEngine, runEngine } from "../../gpu-backend/run-engine.ts";
import { parseSettings } from "../../gpu-backend/settings.ts";
import { ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import { cpuNowMs } from "./bench-engine.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";
import { somePrompt } from "./workload.ts";

/** In tokens behind which one more is computed, whole blocks. */
const PREFIX_TOKENS = [16, 64, 256, 1024, 1984];
const SECRET = "a-secret-of-this-benchmark";

/** By this name the lender is asked in memory, as one of the same process; nobody listens there. */
const NEIGHBOUR_URL = "http://127.0.0.1:9";

const WAYS = ["HTTP", "memory"] as const;
const SIDES = ["recomputed", ...WAYS] as const;
type Side = (typeof SIDES)[number];

export const PEERS: Section = {
  title: "Peers",
  published:
    "Mooncake 2025: 59 to 498 % more effective capacity where nodes of eight A800 share KV, LLaMA3-70B. Loading pays where bytes / bandwidth is below the prefill of the same tokens",
  how: "the first token of a prompt that another engine on this machine has computed, over HTTP or handed over in memory, CPU time of both engines together: recomputed over fetched, where the engine is free to compute instead",
  why: "whatever is fetched, its request costs some ten milliseconds of CPU over HTTP and less than half of it in memory, so that of a few blocks the engine computes; behind that a token costs 0.03 ms over HTTP, under 0.01 in memory, and 0.2 to 0.3 to compute, attention over what is before it included. There is no network in between: with one its bandwidth adds to each token, which the engine measures and these figures do not have",
  predicts: true,
  measure,
};

async function measure({ machine, curve, repeats, random }: Conditions): Promise<Row[]> {
  const [precision = "", runtime = ""] = machine.name.split(", ");
  const flags = ["--precision", precision, "--runtime", runtime];
  const neighbours = new KvNeighbours();
  const lender = await open([...flags, "--advertise-url", NEIGHBOUR_URL], neighbours);
  const peers = { HTTP: lender.url, memory: NEIGHBOUR_URL };
  const urls = Object.values(peers).join(",");
  const loader = await open([...flags, "--kv-host-mib", "64", "--kv-peers", urls], neighbours);
  const rows: Row[] = [];
  let seed = 0;
  for (const prefixTokens of PREFIX_TOKENS) {
    const fetchedTokens = { HTTP: [] as number[], memory: [] as number[] };
    // oxlint-disable-next-line no-await-in-loop -- one at a time
    const samplesOf = await takeTurns(SIDES, { repeats, random }, async (side: Side) => {
      seed += 1;
      const prompt = somePrompt(prefixTokens + 1, seed);
      await firstToken(lender, prompt);
      const startedAtMs = cpuNowMs();
      const headers = side === "recomputed" ? {} : { [ENGINE_HEADERS.kvPeer]: peers[side] };
      const cachedTokens = await firstToken(loader, prompt, headers);
      if (side !== "recomputed") fetchedTokens[side].push(cachedTokens);
      return cpuNowMs() - startedAtMs;
    });
    const predictedMs = curve.predictMs({
      tokens: prefixTokens + 1,
      attendedPairs: ((prefixTokens + 1) * (prefixTokens + 2)) / 2,
      sequences: 1,
      kvTokens: prefixTokens + 1,
    });
    const computedMs = medianOf(samplesOf("recomputed"));
    for (const way of WAYS) {
      const ratio = ratioOf(samplesOf("recomputed"), samplesOf(way), random);
      const times = `${computedMs.toFixed(1)} → ${medianOf(samplesOf(way)).toFixed(1)} ms`;
      rows.push({
        what: `${prefixTokens} tokens, ${medianOf(fetchedTokens[way])} of them by ${way}`,
        ours: `${show(ratio, 1)} (${times})`,
        predicted: `${predictedMs.toFixed(1)} ms to compute`,
      });
    }
  }
  await Promise.all([lender.stop(), loader.stop()]);
  return rows;
}

async function open(flags: readonly string[], neighbours: KvNeighbours): Promise<RunningEngine> {
  const argv = ["--port", "0", "--drain-ms", "0", "--kv-blocks", "256", ...flags];
  const parsed = parseSettings(argv, { SLUICE_REPLICA_SECRET: SECRET });
  if (parsed.kind !== "settings") throw new Error(JSON.stringify(parsed));
  return runEngine(
    parsed.settings,
    createLog(() => undefined),
    neighbours,
  );
}

const Usage = z.object({
  usage: z.object({ prompt_tokens_details: z.object({ cached_tokens: z.int() }) }),
});

/** Asks for one token behind a prompt, and returns how much of it was cached or fetched. */
async function firstToken(
  { url }: RunningEngine,
  prompt: readonly number[],
  headers: Readonly<Record<string, string>> = {},
): Promise<number> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${SECRET}`, ...headers },
    body: JSON.stringify({ model: "sluice-tiny", prompt, max_tokens: 1, temperature: 0 }),
  });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return Usage.parse(await response.json()).usage.prompt_tokens_details.cached_tokens;
}
