import { readTrace } from "../read-trace.ts";
import type { BenchFlags } from "../bench/bench-flags.ts";
import { BENCH_FLAGS, joinGoals, warmUpMsOf } from "../bench/bench-flags.ts";
import { COMPARE_FLAGS, tellComparison } from "../bench/tell-comparison.ts";
import { hasGoals } from "../bench/goals.ts";
import { drawArrivals, playTrace } from "../bench/load-arrivals.ts";
import { loadPage, sweepPage } from "../bench/load-page.ts";
import type { LoadResult } from "../bench/load-result.ts";
import { loadTenantsOf, POISSON } from "../bench/load-tenants-of.ts";
import type { LoadTenant } from "../bench/load-tenant.ts";
import type { LoadProgress } from "../bench/measure-load.ts";
import { measureLoad } from "../bench/measure-load.ts";
import { PRESETS } from "../bench/presets.ts";
import { firstModelOf, measurePrompts } from "../bench/probe-server.ts";
import type { PromptMeasure } from "../bench/prompt-text.ts";
import { promptText } from "../bench/prompt-text.ts";
import { failuresText } from "../bench/reason-counts.ts";
import { reportLoad } from "../bench/report-load.ts";
import { AnswerStreams } from "../bench/stream-answer.ts";
import type { RateSweep } from "../bench/sweep-rates.ts";
import { sweepRates } from "../bench/sweep-rates.ts";
import { WALL_CLOCK } from "../bench/wall-clock.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { parseWords, toHelpLines } from "../flags.ts";
import { onInterrupt } from "../on-interrupt.ts";
import { requireWritable, writeResult } from "../result-file.ts";
import { requireServerUrl } from "../server-flags.ts";
import { toColumns } from "../verbs.ts";

/** What is kept of each takes some 200 bytes. */
const REQUESTS_MAX = 500_000;
const PROGRESS_EVERY_MS = 5_000;
const DEFAULT_RATE = 1;
const SWEEP_TARGET = 0.99;

/** `sluice bench`: measures a server under load. */
export const benchCommand: Command = {
  name: "bench",
  synopsis: "URL [flags] | compare A.json B.json",
  summary: "Measure any OpenAI server under load, tenant by tenant",
  help: `Sends requests to the server at URL when a schedule says, whether earlier ones were answered or not,
and tells what became of them. All times count from when a request was due, so a server that makes the sender
wait gains nothing by it. Refusals (429, 503) and failures count against what was offered. Ctrl-C ends the load
and tells what there is by then.

${toHelpLines(BENCH_FLAGS)}

Presets: ${Object.keys(PRESETS).join(", ")}
(of MLPerf Inference v5.1 they are the limits, not the data sets)

A mix is YAML; all but the names may be left out:
  tenants:
    chat: { key_env: CHAT_KEY, weight: 3, class: interactive, prompt_tokens: 100..400, output_tokens: 64,
            burstiness: 0.5, goodput: "ttft:500 tpot:30" }
    bulk: { key_env: BULK_KEY }

"sluice bench compare A.json B.json" tells how two results differ, with intervals of 95 %:
${toHelpLines(COMPARE_FLAGS)}`,
  run: (words, terminal) =>
    words[0] === "compare" ? runCompare(words.slice(1), terminal) : runBench(words, terminal),
};

async function runCompare(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, COMPARE_FLAGS, 2);
  const [a, b] = positionals;
  if (a === undefined || b === undefined) throw new WrongUse("Expected the files of two results");
  for (const line of tellComparison({ a, b }, flags.json)) terminal.print(line);
  return EXIT_CODES.ok;
}

async function runBench(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(joinGoals(words), BENCH_FLAGS, 1);
  const baseUrl = requireServerUrl(positionals[0]);
  const tenants = loadTenantsOf(flags, process.env);
  requireSense(flags, tenants);
  for (const file of [flags.out, flags.html]) if (file !== undefined) requireWritable(file);
  const token = tenants[0]?.token;
  const model = flags.model ?? (await firstModelOf({ baseUrl, token }));
  const server = {
    baseUrl,
    model,
    endpoint: flags.endpoint,
    ignoresEos: flags["ignore-eos"],
    answerMsMax: flags.timeout,
  };
  const streams = new AnswerStreams(server, () => WALL_CLOCK.readNowMs());
  const interrupt = onInterrupt();
  try {
    const asked = { tenantName: tenants[0]?.name, token, className: tenants[0]?.className };
    const measure = await measurePrompts(streams, asked, interrupt.signal);
    const bench = { flags, tenants, model, streams, measure, terminal, signal: interrupt.signal };
    return flags.sweep === undefined ? await tellOne(bench) : await tellSweep(bench);
  } finally {
    interrupt.release();
    streams.close();
  }
}

interface Bench {
  readonly flags: BenchFlags;
  readonly tenants: readonly LoadTenant[];
  readonly model: string;
  readonly streams: AnswerStreams;
  readonly measure: PromptMeasure;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

async function tellOne(bench: Bench): Promise<number> {
  const { flags, terminal } = bench;
  const result = await runOnce(bench, flags.rate ?? DEFAULT_RATE);
  if (flags.out !== undefined) writeResult(flags.out, JSON.stringify(result));
  if (flags.html !== undefined) writeResult(flags.html, loadPage(result));
  if (flags.json) terminal.print(JSON.stringify(result));
  else for (const line of reportLoad(result)) terminal.print(line);
  return exitCodeOf(result);
}

async function tellSweep(bench: Bench): Promise<number> {
  const { flags, terminal, signal } = bench;
  const [from = 0, to = 0] = flags.sweep ?? [];
  const sweep = await sweepRates({
    from,
    to,
    target: flags["sweep-target"] ?? SWEEP_TARGET,
    signal,
    run: async (rate) => {
      const result = await runOnce(bench, rate);
      const share = result.attainment_offered;
      terminal.complain(
        `${rate.toFixed(2)} requests/s: ${share === null ? "-" : (100 * share).toFixed(2)}% good`,
      );
      return result;
    },
  });
  if (flags.out !== undefined) writeResult(flags.out, JSON.stringify(sweep));
  if (flags.html !== undefined) writeResult(flags.html, sweepPage(sweep));
  if (flags.json) terminal.print(JSON.stringify(sweep));
  else for (const line of reportSweep(sweep)) terminal.print(line);
  return signal.aborted || sweep.knee === null ? EXIT_CODES.failure : EXIT_CODES.ok;
}

async function runOnce(bench: Bench, rate: number): Promise<LoadResult> {
  const { flags, tenants, model, streams, measure, terminal, signal } = bench;
  const draw = { seed: flags.seed, ratePerSecond: rate, durationMs: flags.duration };
  const trace = flags.trace;
  const onProgress = progressTeller(flags.duration, terminal);
  return measureLoad({
    tenants,
    arrivals:
      trace === undefined
        ? drawArrivals(tenants, draw)
        : playTrace(readTrace(trace, { requestsMax: REQUESTS_MAX }), tenants, {
            speed: flags.speed ?? 1,
            durationMs: flags.duration,
          }),
    clock: WALL_CLOCK,
    send: (arrival, onOutput, ofLoad) => {
      const tenant = tenants[arrival.tenantIndex];
      const prompt = promptText(arrival, measure, flags.seed);
      const { token, className } = { token: tenant?.token, className: tenant?.className };
      return streams.ask(
        { prompt, outputTokens: arrival.outputTokens, token, className },
        onOutput,
        ofLoad,
      );
    },
    signal,
    warmUpMs: warmUpMsOf(flags),
    durationMs: trace === undefined ? flags.duration : undefined,
    isMeasured: measure.isMeasured,
    keepsDetails: flags["save-detailed"],
    setting: {
      date: new Date().toISOString(),
      model,
      endpoint: flags.endpoint,
      ratePerSecond: trace === undefined ? rate : undefined,
      burstiness: flags.burstiness ?? POISSON,
      concurrencyMax: flags["max-concurrency"],
      seed: flags.seed,
    },
    onProgress,
  });
}

function progressTeller(durationMs: number, terminal: Terminal) {
  let nextAtMs = PROGRESS_EVERY_MS;
  return ({ elapsedMs, sent, answered, refused, failed, underWay }: LoadProgress) => {
    if (elapsedMs < nextAtMs) return;
    nextAtMs = elapsedMs + PROGRESS_EVERY_MS;
    terminal.complain(
      `${(elapsedMs / 1000).toFixed(0)} of ${(durationMs / 1000).toFixed(0)} s: ${sent} sent, ${answered} answered, ` +
        `${refused} refused, ${failed} failed, ${underWay} under way`,
    );
  };
}

function reportSweep({ points, knee, target, isBounded }: RateSweep): string[] {
  const share = `${(100 * target).toFixed(1)} %`;
  const rows = points.map(({ rate, result }) => [
    rate.toFixed(2),
    result.attainment_offered === null ? "-" : (100 * result.attainment_offered).toFixed(2),
    result.request_goodput?.toFixed(2) ?? "-",
    String(result.rejected),
    sweepNoteOf(result),
  ]);
  const verdict =
    knee === null
      ? `No rate kept ${share} of what was offered good`
      : `Knee: ${knee.toFixed(2)} requests/s is the highest rate tried with ${share} of what was offered good` +
        (isBounded ? "" : " (nothing higher was tried)");
  return [
    ...toColumns([["requests/s", "good %", "goodput/s", "refused", ""], ...rows]),
    "",
    verdict,
  ];
}

function sweepNoteOf({ client, failed, rejected, failures }: LoadResult): string {
  const notes = client.kept_up ? [] : ["this side could not keep up"];
  if (failed > rejected) notes.push(failuresText(failed - rejected, failures));
  return notes.join("; ");
}

function requireSense(flags: BenchFlags, tenants: readonly LoadTenant[]): void {
  if (warmUpMsOf(flags) >= flags.duration)
    throw new WrongUse("--warm-up: Expected less than --duration");
  if (flags.trace !== undefined && (flags.rate !== undefined || flags.sweep !== undefined)) {
    throw new WrongUse("--trace: Expected without --rate and --sweep; --speed makes it faster");
  }
  requireCompany(flags);
  if (flags.rate !== undefined && flags.sweep !== undefined) {
    throw new WrongUse("--sweep: Expected without --rate");
  }
  if (flags.sweep !== undefined && !tenants.some(({ goals }) => hasGoals(goals))) {
    throw new WrongUse("--sweep: Expected goals to keep, with --goodput or a preset");
  }
  const rate = flags.sweep?.[1] ?? flags.rate ?? DEFAULT_RATE;
  const requests = (rate * flags.duration) / 1000;
  if (flags.trace === undefined && requests > REQUESTS_MAX) {
    throw new WrongUse(
      `Expected at most ${REQUESTS_MAX} requests, found about ${Math.round(requests)}`,
    );
  }
}

/** What would change nothing was meant otherwise. */
function requireCompany(flags: BenchFlags): void {
  if (flags.trace !== undefined) {
    const own = (["burstiness", "prompt-tokens", "output-tokens"] as const).find(
      (name) => flags[name] !== undefined,
    );
    if (own !== undefined)
      throw new WrongUse(`--${own}: Expected without --trace, which has its own`);
  } else if (flags.speed !== undefined) {
    throw new WrongUse("--speed: Expected with --trace, which it makes faster");
  }
  if (flags["sweep-target"] !== undefined && flags.sweep === undefined) {
    throw new WrongUse("--sweep-target: Expected with --sweep, which looks for it");
  }
  if (flags["save-detailed"] && flags.out === undefined && !flags.json) {
    throw new WrongUse("--save-detailed: Expected with --out or --json, which has the details");
  }
}

/** A load of which nothing was answered is no measurement. */
function exitCodeOf({ interrupted, completed }: LoadResult): number {
  return interrupted || completed === 0 ? EXIT_CODES.failure : EXIT_CODES.ok;
}
