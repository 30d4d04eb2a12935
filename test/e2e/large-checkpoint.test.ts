import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { copyBundledTokenizer } from "../support/bundled-tokenizer.ts";
import { spawnEngine } from "../support/engine-program.ts";
import { RUNTIMES_AND_PRECISIONS } from "../gpu-backend/engine/executor/runtimes.ts";
import { LARGE_PARAMETERS, writeLargeCheckpoint } from "../support/large-checkpoint.ts";
import { readStream, startEngine } from "../support/running-engine.ts";

const STREAMS = 16;
const TOKENS = 12;
const FLAGS = ["--port", "0", "--kv-blocks", "128"];
const TEST_MS_MAX = 300_000;

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "large-"));
  await writeLargeCheckpoint(directory);
  copyBundledTokenizer(directory);
}, TEST_MS_MAX);
afterAll(() => rm(directory, { recursive: true }));

/** Different prompts, answered at the same time. */
async function answersOf(url: string, model: string) {
  const streams = Array.from({ length: STREAMS }, async (_, index) => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({
        model,
        stream: true,
        temperature: 0,
        max_tokens: TOKENS,
        stream_options: { include_usage: true },
        messages: [{ role: "user", content: `Tell me of the number ${index}.` }],
      }),
    });
    return readStream(response);
  });
  return Promise.all(streams);
}

/** What a process takes, and the most that it ever took. */
function memoryOf(processId: number) {
  const text = readFileSync(`/proc/${processId}/status`, "utf8");
  const of = (name: string) =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  return { peakBytes: of("VmHWM"), residentBytes: of("VmRSS") };
}

/** Starts a program of an engine, and says what it took at most and what it planned to take. */
async function peakOf(flags: readonly string[]) {
  const program = spawnEngine([...FLAGS, ...flags]);
  try {
    await program.ready();
    const { peakBytes } = memoryOf(program.child.pid ?? 0);
    const plan = program.log.find(({ event }) => event === "memory-plan");
    const plannedBytes = ["weightBytes", "kvPoolBytes", "scratchBytes"].reduce((sum, name) => {
      return sum + Number(plan?.[name]);
    }, 0);
    return { peakBytes, plannedBytes };
  } finally {
    program.child.kill("SIGKILL");
    await program.ended;
  }
}

describe("a checkpoint of 100 million parameters", () => {
  test.skipIf(!existsSync("/proc/self/status")).each(RUNTIMES_AND_PRECISIONS)(
    "takes at most 1.3 times its size while it is loaded in $precision on $runtime, beyond what any engine takes",
    async ({ precision, runtime }) => {
      const way = ["--precision", precision, "--runtime", runtime];
      const small = await peakOf(way);
      const large = await peakOf([...way, "--model", directory]);
      const plannedBytes = large.plannedBytes - small.plannedBytes;
      expect(plannedBytes).toBeGreaterThan(100e6);
      const ratio = (large.peakBytes - small.peakBytes) / plannedBytes;
      // Pages that nothing was written to yet are not taken; far below, the plan would be wrong.
      expect(ratio).toBeGreaterThan(0.4);
      expect(ratio).toBeLessThan(1.3);
    },
    TEST_MS_MAX,
  );

  test(
    "is loaded, serves sixteen streams and is unloaded, again and again, without growth",
    async () => {
      expect(LARGE_PARAMETERS).toBeGreaterThan(100e6);
      const texts: string[][] = [];
      const residentBytes: number[] = [];
      for (let round = 0; round < 4; round++) {
        const engine = await startEngine([
          ...FLAGS,
          "--runtime",
          "wasm",
          "--model",
          directory,
          "--model-name",
          "large",
        ]);
        const ready = engine.log.find(({ event }) => event === "ready");
        expect(ready).toMatchObject({ parameters: LARGE_PARAMETERS });
        const answers = await answersOf(engine.url, "large");
        expect(answers.map(({ lastData }) => lastData)).toEqual(answers.map(() => "[DONE]"));
        const tokens = answers.map(({ usage }) => usage?.completion_tokens ?? 0);
        expect(tokens.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(STREAMS);
        texts.push(answers.map(({ text }) => text));
        expect(await engine.idleKvUsage()).toBe(0);
        await engine.stop();
        residentBytes.push(process.memoryUsage().rss);
      }
      expect(new Set(texts.map((each) => JSON.stringify(each))).size).toBe(1);
      const { size } = await stat(join(directory, ".sluice", "int8-weights.bin"));
      expect(size).toBeGreaterThan(LARGE_PARAMETERS * 0.95);
      // A model that stayed would be 160 MB more each time.
      const [, second = 0, , last = 0] = residentBytes;
      expect(last - second).toBeLessThan(64e6);
    },
    TEST_MS_MAX,
  );
});
