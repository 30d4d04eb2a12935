import { parse } from "yaml";
import { afterEach, describe, expect, test, vi } from "vitest";
import { leaveRunFile } from "../../cli/run-file.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { ERRORS } from "../../src/protocol/errors.ts";
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

const refusal = (code: "missing_api_key" | "invalid_api_key") => ({
  status: 401,
  body: JSON.stringify({ error: { code, message: ERRORS[code].message } }),
});
const CARDS = {
  "/v1/models": {
    data: [
      { id: "tiny", owned_by: "sluice", max_model_len: 2048 },
      { id: "alias", owned_by: "sluice", max_model_len: 2048, root: "tiny" },
    ],
  },
};
const GATEWAY = { "/health": { status: "serving", server: "sluice-gateway" } };
const ENGINE = { "/health": { status: "serving" } };

describe("sluice doctor", () => {
  test("tells adapters from the models that they are for, and whether a server says what it has", async () => {
    const [base] = VLLM["/v1/models"].data;
    const adapter = { id: "sql-lora", owned_by: "vllm", parent: base?.id };
    const { stdout } = await doctor({
      ...VLLM,
      "/v1/models": { object: "list", data: [base, adapter] },
    });
    expect(stdout).toContain("  model    meta-llama/Llama-3.1-8B-Instruct, context 32768\n");
    expect(stdout).toContain("  adapter  sql-lora, of meta-llama/Llama-3.1-8B-Instruct\n");
    expect(stdout).toContain("  yes      says which models and adapters it serves\n");
    const loose = await doctor({ "/v1/models": { data: [{ id: "a", owned_by: "tensorrt_llm" }] } });
    expect(loose.stdout).toContain(
      "  yes      says which models it serves, and answers whichever name it is asked by\n",
    );
  });

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
    ["trtllm", { "/v1/models": { data: [{ id: "a", owned_by: "Triton Inference Server" }] } }, ""],
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

  test.each([
    ["sglang", { "/v1/loads": { loads: [] } }, "--enable-priority-scheduling"],
    ["vllm", VLLM, "--scheduling-policy priority"],
    [
      "trtllm",
      { "/v1/models": { data: [{ id: "a", owned_by: "tensorrt_llm" }] } },
      "waiting_queue_policy",
    ],
    [
      "dynamo",
      { "/v1/models": { data: [{ id: "a", owned_by: "nvidia" }] } },
      "--scheduling-policy",
    ],
  ])(
    "names what makes %s serve the more urgent first, and what the file says then",
    async (_, own, flag) => {
      const { stdout } = await doctor({ "/v1/models": { data: [{ id: "a" }] }, ...own });
      const line = stdout.split("\n").find((text) => text.includes("more urgent")) ?? "";
      expect(line).toMatch(/^ {2}yes /);
      expect(line).toContain(flag);
      expect(line).toContain('"priorities: true"');
      expect((await doctor({ "/api/version": { version: "0.13.0" } })).stdout).toContain(
        "  no       can be told which request is more urgent\n",
      );
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

  test("tells a gateway of ours from an engine of ours, with a key of it and without", async () => {
    for (const models of [CARDS, { "/v1/models": refusal("missing_api_key") }]) {
      // oxlint-disable-next-line no-await-in-loop -- one server after the other
      const { exitCode, stdout } = await doctor({ ...models, ...GATEWAY });
      expect(exitCode).toBe(1);
      expect(stdout).toContain(`${server?.url} is a Sluice gateway`);
      expect(stdout).not.toContain("pools:");
    }
    const json = await doctor({ ...CARDS, ...GATEWAY }, "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ isGateway: true, models: [{}, {}] });
    const engine = await doctor({ ...CARDS, ...ENGINE });
    expect(engine.exitCode).toBe(0);
    expect(engine.stdout).toContain("is gpu-backend");
    expect(engine.stdout).toContain("engine: sluice");
  });

  test("asks an engine of ours for an answer as well, and a model that it has not fails", async () => {
    const missing = { status: 404, body: '{"error":{"message":"There is no zzz"}}' };
    const answered = await doctor(
      { ...CARDS, ...ENGINE, "/v1/chat/completions": `${HELLO}${USAGE}${DONE}` },
      "--ask",
    );
    expect(answered.exitCode).toBe(0);
    expect(answered.stdout).toContain("yes      ends its stream with [DONE]");
    // Those that `sluice up` starts serve nobody without it; others are sent nothing of ours.
    expect(server?.headers.at(-1)?.["x-gw-cache-salt"]).toMatch(/.{16}/);
    await doctor({ ...VLLM, "/v1/chat/completions": `${HELLO}${DONE}` }, "--ask");
    for (const headers of server?.headers ?? []) {
      expect(Object.keys(headers)).not.toContain("x-gw-cache-salt");
    }
    const failed = await doctor(
      { ...CARDS, ...ENGINE, "/v1/chat/completions": missing },
      "--ask",
      "--model=zzz",
    );
    expect(failed.exitCode).toBe(1);
    expect(failed.stdout).toContain("no       answers a short request: status 404");
    const none = await doctor({ "/v1/models": { data: [] }, ...ENGINE }, "--ask");
    expect(none).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining("it lists no model: give --model"),
    });
    expect(await runRecorded("doctor", "http://a:1", "--model=zzz")).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("--ask"),
    });
  });

  describe("with --local", () => {
    const secrets = provideSecrets({});
    const folders: RunFolder[] = [];
    let others: ForeignServer | undefined;
    afterEach(async () => {
      vi.restoreAllMocks();
      await others?.close();
      for (const folder of folders.splice(0)) folder.remove();
    });

    /** A run whose gateway has replicas at these URLs. */
    async function runWith(...urls: string[]): Promise<string> {
      const replicas = urls.map((endpointUrl) => ({ endpointUrl, state: "ready" }));
      const status = { configurationVersion: 1, pools: [{ poolId: "local", replicas }] };
      others = await startForeignServer({ ...GATEWAY, "/admin/v1/status": status });
      const folder = createRunFolder();
      folders.push(folder);
      leaveRunFile(folder.path, folder, { pid: process.pid, url: others.url, secrets });
      vi.spyOn(process, "cwd").mockReturnValue(folder.path);
      return others.url;
    }

    test("gives an engine of the run its token, and nobody else", async () => {
      server = await startForeignServer({ "/v1/models": refusal("missing_api_key"), ...ENGINE });
      await runWith(server.url);
      const refused = await runRecorded("doctor", server.url);
      expect(refused).toMatchObject({
        exitCode: 1,
        stderr: expect.stringContaining("--token-env SLUICE_REPLICA_SECRET, or --local"),
      });
      expect(server.bearers).not.toContainEqual(expect.stringContaining("Bearer"));
      await runRecorded("doctor", server.url, "--local");
      expect(server.bearers).toContain(`Bearer ${secrets.SLUICE_REPLICA_SECRET}`);

      // A replica that is no engine of ours, and a server that is no replica.
      await others?.close();
      const foreign = await startForeignServer({ "/v1/models": { status: 401, body: "{}" } });
      const gatewayUrl = await runWith(foreign.url);
      await runRecorded("doctor", foreign.url, "--local");
      expect(foreign.bearers).not.toContainEqual(expect.stringContaining("Bearer"));
      const stranger = await runRecorded("doctor", "http://127.0.0.1:9", "--local");
      expect(stranger).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining(`an engine of this folder's run: ${foreign.url}`),
      });
      await foreign.close();
      const gateway = await runRecorded("doctor", gatewayUrl, "--local");
      expect(gateway.stdout).toContain("no server with the OpenAI API");
    });

    test("needs a run", async () => {
      vi.spyOn(process, "cwd").mockReturnValue("/");
      const { exitCode, stderr } = await runRecorded("doctor", "http://127.0.0.1:9", "--local");
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('"sluice up"')]);
    });
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
