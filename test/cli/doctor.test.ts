import { parse } from "yaml";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ForeignAnswer, ForeignServer } from "../support/foreign-server.ts";
import { SILENCE, startForeignServer } from "../support/foreign-server.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

let server: ForeignServer | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  await server?.close();
  server = undefined;
});

async function doctor(answers: Readonly<Record<string, ForeignAnswer>>, ...flags: string[]) {
  server = await startForeignServer(answers);
  return runRecorded("doctor", `${server.url}/v1`, ...flags);
}

const chunk = (body: object): string => `data: ${JSON.stringify(body)}\n\n`;
const HELLO = chunk({
  choices: [{ index: 0, delta: { content: "Hello" }, finish_reason: "stop" }],
});
const USAGE = chunk({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } });
const DONE = "data: [DONE]\n\n";

const VLLM = {
  "/v1/models": {
    object: "list",
    data: [{ id: "meta-llama/Llama-3.1-8B-Instruct", owned_by: "vllm", max_model_len: 32_768 }],
  },
  "/health": "",
  "/metrics":
    "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.25\n",
};

describe("sluice doctor", () => {
  test("tells which engine it is and what it says of itself, and writes the configuration", async () => {
    const { exitCode, stdout, stderr } = await doctor(VLLM);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain(`${server?.url} is vLLM`);
    expect(stdout).toContain("yes      requests that wait inside it: 1 now");
    expect(stdout).toContain("yes      keeps the KV of tenants apart");
    const [, snippet = ""] = stdout.split("\n\n");
    expect(parse(snippet)).toEqual({
      models: {
        "llama-3.1-8b-instruct": {
          pool: "gpus",
          upstream: "meta-llama/Llama-3.1-8B-Instruct",
          context: 32_768,
        },
      },
      pools: { gpus: { engine: "vllm", replicas: [{ url: server?.url }] } },
    });
  });

  test("asks for an answer only when it is told to, and says what that lacks", async () => {
    const asked = { ...VLLM, "/v1/chat/completions": `${HELLO}${USAGE}${DONE}` };
    await doctor(asked);
    expect(server?.paths).not.toContain("/v1/chat/completions");
    await server?.close();
    const { exitCode, stdout } = await doctor(asked, "--ask");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("yes      counts the tokens of a stream");
    expect(stdout).toContain("--enable-prompt-tokens-details");
  });

  test.each([
    [
      "sglang",
      { "/v1/loads": { loads: [{ num_running_reqs: 1, num_waiting_reqs: 0 }] } },
      // What would have cost it a token.
      "/health",
    ],
    [
      "trtllm",
      { "/v1/models": { data: [{ id: "llama", owned_by: "tensorrt_llm" }] } },
      // What others wanted to read.
      "/metrics",
    ],
    [
      "llamacpp",
      { "/props": { total_slots: 4, default_generation_settings: { n_ctx: 8192 } } },
      "",
    ],
    ["tgi", { "/info": { model_id: "mistral", max_total_tokens: 4096, version: "3.3" } }, ""],
    ["ollama", { "/api/version": { version: "0.13.0" } }, ""],
    ["openai", {}, ""],
  ])(
    "knows %s, and does not ask it for what costs it something",
    async (engine, own, forbidden) => {
      const models = { "/v1/models": { object: "list", data: [{ id: "a" }] } };
      const { stdout } = await doctor({ ...models, ...own }, "--json");
      expect(JSON.parse(stdout)).toMatchObject({ engine });
      expect(server?.paths).not.toContain(forbidden);
    },
  );

  test("takes the context from wherever it is said, and says where it guesses", async () => {
    const models = { "/v1/models": { data: [{ id: "a b", owned_by: "llamacpp", meta: {} }] } };
    const props = { "/props": { total_slots: 4, default_generation_settings: { n_ctx: 8192 } } };
    expect((await doctor({ ...models, ...props })).stdout).toContain("a-b: { pool: gpus");
    expect((await doctor({ ...models, ...props })).stdout).toContain("context: 8192 }");
    const { stdout } = await doctor({ "/v1/models": { data: [{ id: "a" }] } });
    expect(stdout).toContain("context: 4096 }   # it does not say its context");
  });

  test.each([
    ["an error", { status: 500, body: '{"error":{"message":"no GPU"}}' }, "status 500"],
    [
      "an error inside",
      `${chunk({ error: { message: "out of memory" } })}${DONE}`,
      "inside the stream",
    ],
    ["nothing", SILENCE, "Took too long"],
  ] as const)("fails where the answer is %s", async (_, answer, reason) => {
    const { exitCode, stdout } = await doctor({ ...VLLM, "/v1/chat/completions": answer }, "--ask");
    expect(exitCode).toBe(1);
    expect(stdout).toContain(reason);
  });

  test("sends a token where one is named, and says where one is wanted", async () => {
    vi.stubEnv("GPU_TOKEN", "a-token");
    const wanted = await doctor({ "/v1/models": { status: 401, body: "{}" } });
    expect(wanted.exitCode).toBe(1);
    expect(wanted.stderr).toContain("--token-env");
    const { stdout } = await doctor(VLLM, "--token-env", "GPU_TOKEN", "--json");
    expect(new Set(server?.bearers)).toEqual(new Set(["Bearer a-token"]));
    expect(stdout).not.toContain("a-token");
    expect(
      (await runRecorded("doctor", "http://a:1", "--token-env", "NOBODY_SET_IT")).exitCode,
    ).toBe(2);
  });

  test("says so where nobody answers, or no such server", async () => {
    const nobody = await runRecorded("doctor", "http://127.0.0.1:9");
    expect(nobody).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("No answer") });
    const other = await doctor({ "/v1/models": "<html>" });
    expect(other).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining("no server with the OpenAI API"),
    });
    for (const words of [[], ["not a url"], ["ftp://a"]]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await runRecorded("doctor", ...words)).exitCode).toBe(2);
    }
  });
});
