import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { copyBundledTokenizer } from "../support/bundled-tokenizer.ts";
import { VARIANTS } from "../support/checkpoint-variants.ts";
import { type EngineProgram, spawnEngine } from "../support/engine-program.ts";
import { randomCheckpoint, SMALL_SHAPE, writeCheckpoint } from "../support/random-checkpoint.ts";
import { readCompletion, readProblem, readText } from "../support/running-engine.ts";
import { RunningStack } from "./support/running-stack.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const QWEN = { ...(VARIANTS["Qwen3, normed queries and keys"] ?? SMALL_SHAPE), vocab_size: 4096 };

let cache: string;
let snapshot: string;
let program: EngineProgram | undefined;
beforeAll(async () => {
  cache = await mkdtemp(join(tmpdir(), "hub-"));
  const folder = join(cache, "models--org--some-qwen");
  snapshot = join(folder, "snapshots", COMMIT);
  await writeCheckpoint(snapshot, randomCheckpoint(1, QWEN), { type: "BF16", shards: 3 });
  copyBundledTokenizer(snapshot);
  mkdirSync(join(folder, "refs"));
  writeFileSync(join(folder, "refs", "main"), COMMIT);
});
afterEach(async () => {
  program?.child.kill("SIGKILL");
  await program?.ended;
  program = undefined;
});
afterAll(() => rm(cache, { recursive: true }));

const post = (url: string, path: string, body: object) =>
  fetch(`${url}${path}`, {
    method: "POST",
    body: JSON.stringify({ model: "org/some-qwen", max_tokens: 8, temperature: 0, ...body }),
  });
const HELLO = { messages: [{ role: "user", content: "Hello!" }] };

async function startPulled(): Promise<string> {
  vi.stubEnv("HF_HUB_CACHE", cache);
  program = spawnEngine(["--port", "0", "--model", "org/some-qwen"]);
  return program.ready();
}

describe("an engine of a model that was pulled", () => {
  test("serves it by its name, and says beforehand what it will take", async () => {
    const url = await startPulled();
    const { log = [] } = program ?? {};
    const names = log.map(({ event }) => event);
    expect(names.indexOf("memory-plan")).toBeLessThan(names.indexOf("ready"));
    const { weightBytes, kvPoolBytes, kvPoolTokens, scratchBytes } = Object.fromEntries(
      Object.entries(log.find(({ event }) => event === "memory-plan") ?? {}),
    );
    expect([weightBytes, kvPoolBytes, kvPoolTokens, scratchBytes]).toEqual(
      Array.from({ length: 4 }, () => expect.any(Number)),
    );
    expect(log.find(({ event }) => event === "ready")).toMatchObject({
      model: "org/some-qwen",
      kvPoolBytes,
      kvPoolTokens,
    });
    const answers = await Promise.all(
      [1, 2].map(async () => readCompletion(await post(url, "/v1/chat/completions", HELLO))),
    );
    expect(answers[0]?.usage?.completion_tokens).toBeGreaterThan(0);
    expect(answers[0]?.choices).toEqual(answers[1]?.choices);
    const models: unknown = await (await fetch(`${url}/v1/models`)).json();
    expect(models).toMatchObject({ data: [{ id: "org/some-qwen" }] });
  });

  test("that was never taught to chat goes on with texts", async () => {
    const path = join(snapshot, "tokenizer_config.json");
    const whole = readFileSync(path);
    const { chat_template: _template, ...rest } = JSON.parse(whole.toString());
    writeFileSync(path, JSON.stringify(rest));
    try {
      const url = await startPulled();
      expect(JSON.stringify(program?.log)).toContain("The model has no chat template");
      const text = await readText(await post(url, "/v1/completions", { prompt: "Once upon" }));
      expect(text.usage?.completion_tokens).toBe(8);
      const refusal = await readProblem(await post(url, "/v1/chat/completions", HELLO));
      expect(refusal).toMatchObject({ status: 400, code: "unsupported_value", param: "messages" });
      expect(refusal.message).toContain("no chat template");
    } finally {
      writeFileSync(path, whole);
    }
  });

  test("that is not one it computes ends in one sentence, before anything is loaded", async () => {
    const directory = join(cache, "gemma2");
    mkdirSync(directory);
    copyBundledTokenizer(directory);
    writeFileSync(join(directory, "config.json"), '{"model_type":"gemma2"}');
    program = spawnEngine(["--port", "0", "--model", directory]);
    expect(await program.ended).toBe(1);
    expect(program.log.at(-1)).toMatchObject({
      event: "start-failed",
      message: expect.stringContaining('model_type "gemma2" asks for soft-capped logits'),
    });
    rmSync(directory, { recursive: true });
  });
});

describe("sluice up --model ORG/NAME", () => {
  test("serves what was pulled under the name that the file has for it", async () => {
    vi.stubEnv("HF_HUB_CACHE", cache);
    const stack = await RunningStack.ready("--model", "org/some-qwen", "--replicas", "1");
    try {
      const [ready] = stack.eventsOf("engine-ready");
      expect(ready).toMatchObject({
        parameters: expect.any(Number),
        kvPoolTokens: expect.any(Number),
        scratchBytes: expect.any(Number),
      });
      const answer = await stack.clientOf("chat").chat.completions.create({
        model: "sluice-tiny",
        messages: [{ role: "user", content: "Hello!" }],
        max_completion_tokens: 4,
      });
      expect(answer.usage?.completion_tokens).toBeGreaterThan(0);
    } finally {
      await stack.dispose();
    }
  });
});
