import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ADAPTERS } from "../../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../../src/protocol/engine-kind.ts";

const namesBy = (engine: ForeignEngine, body: unknown, status = 200) =>
  ADAPTERS[engine].models?.readNames({
    status,
    text: typeof body === "string" ? body : JSON.stringify(body),
    contentType: "application/json",
  });

const listOf = (count: number) => ({
  data: Array.from({ length: count }, (_, index) => ({ id: `lora-${index}` })),
});

/** What those that refuse other names answer to the question for theirs, as their documentation has it. */
const TOLD: readonly [ForeignEngine, string, object, readonly string[]][] = [
  [
    "vllm",
    "/v1/models",
    {
      object: "list",
      data: [
        {
          id: "meta-llama/Llama-3.1-8B-Instruct",
          object: "model",
          created: 1_718_000_000,
          owned_by: "vllm",
          root: "meta-llama/Llama-3.1-8B-Instruct",
          parent: null,
          max_model_len: 8192,
        },
        {
          id: "sql-lora",
          object: "model",
          created: 1_718_000_000,
          owned_by: "vllm",
          root: "/models/sql-lora",
          parent: "meta-llama/Llama-3.1-8B-Instruct",
        },
      ],
    },
    ["meta-llama/Llama-3.1-8B-Instruct", "sql-lora"],
  ],
  [
    "dynamo",
    "/v1/models",
    {
      object: "list",
      data: [{ id: "Qwen/Qwen3-0.6B", object: "model", created: 1, owned_by: "nvidia" }],
    },
    ["Qwen/Qwen3-0.6B"],
  ],
  [
    "ollama",
    "/api/tags",
    {
      models: [
        { name: "llama3.2:latest", model: "llama3.2:latest", size: 2_019_393_189 },
        { name: "qwen3:8b", model: "qwen3:8b", size: 5_000_000_000 },
      ],
    },
    ["llama3.2:latest", "llama3.2", "qwen3:8b"],
  ],
  [
    "llamacpp",
    "/v1/models",
    {
      object: "list",
      data: [
        { id: "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", in_cache: true, status: { value: "loaded" } },
        { id: "local", in_cache: true, status: { value: "unloaded", args: [] } },
      ],
    },
    ["ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", "local"],
  ],
  [
    "sglang",
    "/v1/models",
    {
      object: "list",
      data: [
        {
          id: "meta-llama/Llama-3.1-8B-Instruct",
          object: "model",
          owned_by: "sglang",
          root: "meta-llama/Llama-3.1-8B-Instruct",
          parent: null,
          max_model_len: 131_072,
        },
        {
          id: "sql-lora",
          object: "model",
          owned_by: "sglang",
          root: "/models/sql-lora",
          parent: "meta-llama/Llama-3.1-8B-Instruct",
          max_model_len: null,
        },
      ],
    },
    // By its own name alone an adapter's base model would answer.
    ["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct:sql-lora"],
  ],
  [
    "trtllm",
    "/v1/models",
    {
      object: "list",
      data: [{ id: "TinyLlama-1.1B-Chat-v1.0", object: "model", owned_by: "tensorrt_llm" }],
    },
    ["TinyLlama-1.1B-Chat-v1.0"],
  ],
  [
    "tgi",
    "/v1/models",
    {
      object: "list",
      data: [
        {
          id: "mistralai/Mistral-7B",
          object: "model",
          created: 0,
          owned_by: "mistralai/Mistral-7B",
        },
      ],
    },
    ["mistralai/Mistral-7B"],
  ],
];

describe("the names by which a server says it serves models", () => {
  test.each(TOLD)("are read of %s, adapters among them", (engine, path, body, names) => {
    expect(ADAPTERS[engine].models?.path).toBe(path);
    expect(namesBy(engine, body)).toEqual(names);
  });

  test("are asked of all that list them; those that answer any name are known to do so", () => {
    const silent = FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].models === undefined);
    expect(silent).toEqual(["openai"]);
    const anyName = FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].models?.answersAnyName);
    expect(anyName).toEqual(["sglang", "trtllm", "tgi"]);
  });

  test("are unknown of a llama.cpp with one model, which takes any name for it", () => {
    const body = { object: "list", data: [{ id: "/models/a.gguf", meta: { n_ctx_train: 4096 } }] };
    expect(namesBy("llamacpp", body)).toBeUndefined();
  });

  test.each(["vllm", "dynamo", "ollama", "llamacpp", "sglang", "trtllm", "tgi"] as const)(
    "are unknown, and not none, where %s answers with anything else",
    (engine) => {
      for (const body of ["", "<html>", "null", "[]", { data: [] }, { models: [] }, { data: {} }]) {
        expect(namesBy(engine, body)).toBeUndefined();
      }
      const [, , body] = TOLD.find(([known]) => known === engine) ?? [];
      expect(namesBy(engine, body, 503)).toBeUndefined();
      expect(ADAPTERS[engine].models?.readNames(undefined)).toBeUndefined();
    },
  );

  test("are unknown where they are too many to be kept, and one that is too long is none", () => {
    expect(namesBy("vllm", listOf(1_024))).toHaveLength(1_024);
    expect(namesBy("vllm", listOf(1_025))).toBeUndefined();
    const long = { data: [{ id: "a".repeat(257) }, { id: "b".repeat(256) }, { id: 7 }, null] };
    expect(namesBy("vllm", long)).toEqual(["b".repeat(256)]);
  });

  test("are read without harm from whatever JSON there is", () => {
    fc.assert(
      fc.property(fc.constantFrom(...FOREIGN_ENGINES), fc.jsonValue(), (engine, body) => {
        const names = namesBy(engine, body) ?? [];
        expect(names.every((name) => typeof name === "string" && name.length <= 256)).toBe(true);
      }),
    );
  });
});
