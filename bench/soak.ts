import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import * as z from "zod";
import { CommandFailure } from "../cli/command.ts";
import { countFlag } from "../cli/flags.ts";
import { Child } from "../cli/stack/child.ts";
import { type Random, seededRandom } from "../src/base/random.ts";
import { Ledger } from "./soak/ledger.ts";
import { readSamples } from "./soak/metrics-text.ts";
import { drawRequest } from "./soak/random-request.ts";
import { sendRequest } from "./soak/send-request.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  minutes: countFlag({ min: 1, max: 1440, default: 10 }, "How long requests are sent"),
  seed: countFlag({ min: 0, max: 999_999_999, default: 1 }, "What the requests are drawn with"),
  clients: countFlag(
    { min: 1, max: 500, default: 24 },
    "How many send at once, each one request after the other",
  ),
  "kv-blocks": countFlag(
    { min: 16, max: 100_000, default: 64 },
    "The engine's KV pool; few of them make it preempt",
  ),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run soak -- [flags]

Sends random requests to an engine of its own, right and wrong ones, and leaves some of them half
read. Several times it lets the engine come to rest and compares what it says of itself with
what the clients saw. Ends with the code 1 if anything was wrong.`;

const ROUNDS = 5;
const START_MS_MAX = 60_000;
const REST_MS_MAX = 10_000;
const REST_CHECK_MS = 100;
/** Room for what only comes to its full size in time: machine code, pools of buffers, the heap's slack. */
const MEMORY_GROWTH_MAX_BYTES = 96 * 1024 * 1024;
/** By then every kind of request has been served, and every thread has been started. */
const WARM_ROUND = 2;

interface SoakedEngine {
  readonly url: string;
  readonly secret: string;
}

async function soak(flags: Flags): Promise<readonly string[]> {
  const secret = randomBytes(24).toString("hex");
  const ready = new EventEmitter();
  const isReady = once(ready, "url").then(([url]) => String(url));
  const child = new Child({
    command: [
      process.execPath,
      "gpu-backend/start.mjs",
      "--port",
      "0",
      "--kv-blocks",
      String(flags["kv-blocks"]),
      "--exit-with-stdin",
    ],
    folder: join(import.meta.dirname, ".."),
    environment: { ...process.env, SLUICE_REPLICA_SECRET: secret },
    onLine: (line) => {
      const [, url] = /"event":"ready","url":"([^"]+)"/.exec(line) ?? [];
      if (url !== undefined) ready.emit("url", url);
    },
  });
  try {
    const exit = child.exited.then(({ cause }) => {
      throw new Error(`The engine ended (${cause}):\n${child.tail.join("\n")}`);
    });
    const late = setTimeout(START_MS_MAX, undefined, { ref: false }).then(() => {
      throw new Error(`The engine does not serve after ${START_MS_MAX} ms`);
    });
    const url = await Promise.race([isReady, exit, late]);
    return await Promise.race([soakEngine({ url, secret }, flags), exit]);
  } finally {
    await child.stop();
  }
}

async function soakEngine(engine: SoakedEngine, flags: Flags): Promise<readonly string[]> {
  const ledger = new Ledger();
  const random = seededRandom(flags.seed);
  const roundMs = (flags.minutes * 60_000) / ROUNDS;
  let warmBytes = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    const endsAtMs = performance.now() + roundMs;
    const clients = Array.from({ length: flags.clients }, () =>
      sendUntil(endsAtMs, engine, { random, ledger }),
    );
    await Promise.all(clients);
    const sample = await samplesAtRest(engine, ledger);
    for (const fault of ledger.disagreements(sample)) ledger.fault(`round ${round}: ${fault}`);
    const residentBytes = sample("process_resident_memory_bytes");
    if (round === WARM_ROUND) warmBytes = residentBytes;
    if (round > WARM_ROUND && residentBytes - warmBytes > MEMORY_GROWTH_MAX_BYTES) {
      ledger.fault(`round ${round}: memory grew from ${warmBytes} to ${residentBytes} bytes`);
    }
    console.log(
      `round ${round} of ${ROUNDS}: ${ledger.summary()}; ` +
        `${sample("engine_generation_tokens_total")} tokens, ` +
        `${sample("engine_num_preemptions_total")} preemptions, ` +
        `${Math.round(residentBytes / 1024 / 1024)} MiB`,
    );
  }
  if (ledger.count("served") === 0) ledger.fault("no request was served at all");
  return ledger.faults;
}

async function sendUntil(
  endsAtMs: number,
  { url, secret }: SoakedEngine,
  { random, ledger }: { readonly random: Random; readonly ledger: Ledger },
): Promise<void> {
  while (performance.now() < endsAtMs) {
    const request = drawRequest(random);
    ledger.note(request, await sendRequest(url, secret, request));
  }
}

/** Waits until nothing runs, as it must soon after the last client has gone, and reads the metrics. */
async function samplesAtRest(engine: SoakedEngine, ledger: Ledger) {
  const headers = { authorization: `Bearer ${engine.secret}` };
  const read = async () =>
    readSamples(await (await fetch(`${engine.url}/metrics`, { headers })).text());
  const endsAtMs = performance.now() + REST_MS_MAX;
  for (;;) {
    const sample = await read();
    if (ledger.disagreements(sample).length === 0 || performance.now() > endsAtMs) return sample;
    await setTimeout(REST_CHECK_MS);
  }
}

async function runSoak(flags: Flags): Promise<string> {
  const faults = await soak(flags);
  if (faults.length === 0) return "Nothing was wrong";
  throw new CommandFailure([...faults, `Wrong with --seed ${flags.seed}`].join("\n"));
}

await runProgram({ flags: FLAGS, help: HELP, run: runSoak });
