import { describe, expect, test } from "vitest";
import { parseModelConfig } from "../../../../gpu-backend/engine/model/model-config.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";

const SMALLEST = {
  model_type: "llama",
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  vocab_size: 100,
};

const parse = (changes: Record<string, unknown>) =>
  parseModelConfig(JSON.stringify({ ...SMALLEST, ...changes }), "config.json");

describe("parseModelConfig", () => {
  test("what a configuration leaves out has the default of transformers", () => {
    expect(parse({})).toEqual({
      hiddenSize: 64,
      layerCount: 2,
      headCount: 4,
      kvHeadCount: 4,
      headDimensions: 16,
      mlpSize: 96,
      vocabularyTokens: 100,
      contextTokens: 2048,
      ropeTheta: 10_000,
      ropeScaling: { kind: "default" },
      normEpsilon: 1e-6,
      normOffset: 0,
      embeddingScale: 1,
      activation: "silu",
      biases: { qkv: false, attentionOutput: false, mlp: false },
      headNorms: false,
      fusedTensors: false,
      tiedEmbeddings: false,
      eosTokenIds: [2],
      notes: [],
    });
  });

  test.each([
    ["mistral", { num_attention_heads: 16, head_dim: 16 }, { kvHeadCount: 8, contextTokens: 4096 }],
    ["qwen2", { num_attention_heads: 32, head_dim: 16 }, { kvHeadCount: 32, eosTokenIds: [] }],
    ["qwen3", { num_attention_heads: 32 }, { headDimensions: 128, headNorms: true }],
    ["phi3", {}, { contextTokens: 4096, normEpsilon: 1e-5, fusedTensors: true }],
    [
      "gemma",
      { num_attention_heads: 16 },
      { kvHeadCount: 16, headDimensions: 256, activation: "gelu-tanh", tiedEmbeddings: true },
    ],
  ])("%s has defaults of its own", (modelType, changes, expected) => {
    expect(parse({ model_type: modelType, ...changes })).toMatchObject(expected);
  });

  test.each([
    ["llama", { attention_bias: true }, { qkv: true, attentionOutput: true, mlp: false }],
    ["llama", { mlp_bias: true }, { qkv: false, attentionOutput: false, mlp: true }],
    ["qwen2", { attention_bias: false }, { qkv: true, attentionOutput: false, mlp: false }],
    ["qwen3", { attention_bias: true }, { qkv: true, attentionOutput: true, mlp: false }],
    ["phi3", { attention_bias: true }, { qkv: false, attentionOutput: false, mlp: false }],
  ])("%s with %j has the biases %j", (modelType, changes, biases) => {
    const kv = { num_key_value_heads: 4 };
    expect(parse({ model_type: modelType, ...kv, ...changes }).biases).toEqual(biases);
  });

  test("what a configuration says is taken", () => {
    expect(
      parse({
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 512,
        rope_theta: 500_000,
        rms_norm_eps: 1e-5,
        tie_word_embeddings: true,
        eos_token_id: [1, 5],
      }),
    ).toMatchObject({
      kvHeadCount: 2,
      headDimensions: 32,
      contextTokens: 512,
      ropeTheta: 500_000,
      normEpsilon: 1e-5,
      tiedEmbeddings: true,
      eosTokenIds: [1, 5],
    });
  });

  test("explicit nulls mean the default, as transformers writes them", () => {
    const config = parse({
      num_key_value_heads: null,
      head_dim: null,
      rope_scaling: null,
      sliding_window: null,
      eos_token_id: null,
    });
    expect(config).toMatchObject({ kvHeadCount: 4, headDimensions: 16, eosTokenIds: [] });
  });

  test("theta is found where transformers 5 keeps it", () => {
    const config = parse({ rope_parameters: { rope_type: "default", rope_theta: 250_000 } });
    expect(config.ropeTheta).toBe(250_000);
  });

  test.each([
    [{ type: "linear", factor: 4 }, { kind: "linear", factor: 4 }, 2048],
    [{ type: "dynamic", factor: 4 }, { kind: "default" }, 2048],
    [
      {
        rope_type: "llama3",
        factor: 32,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 8192,
      },
      {
        kind: "llama3",
        factor: 32,
        lowFrequencyFactor: 1,
        highFrequencyFactor: 4,
        originalContextTokens: 8192,
      },
      2048,
    ],
    [
      { rope_type: "yarn", factor: 4, original_max_position_embeddings: 1024 },
      {
        kind: "yarn",
        factor: 4,
        originalContextTokens: 1024,
        betaFast: 32,
        betaSlow: 1,
        attentionFactor: 0.1 * Math.log(4) + 1,
        truncates: true,
      },
      4096,
    ],
  ])("rope scaling %j is read, with its context", (json, ropeScaling, contextTokens) => {
    for (const key of ["rope_scaling", "rope_parameters"]) {
      expect(parse({ [key]: json })).toMatchObject({ ropeScaling, contextTokens });
    }
  });

  test("a scaling that stretches to less than the model was trained on cuts nothing off", () => {
    const json = { rope_type: "yarn", factor: 1.5, original_max_position_embeddings: 1024 };
    expect(parse({ rope_scaling: json })).toMatchObject({ contextTokens: 2048 });
  });

  test("a temperature of two magnitudes is their ratio", () => {
    const { ropeScaling } = parse({
      rope_scaling: { type: "yarn", factor: 40, mscale: 0.7, mscale_all_dim: 1.4 },
    });
    const expected = (0.07 * Math.log(40) + 1) / (0.14 * Math.log(40) + 1);
    expect(ropeScaling).toMatchObject({ attentionFactor: expected, originalContextTokens: 2048 });
  });

  test.each([
    ["mistral", { sliding_window: 1000, num_key_value_heads: 4 }, 1000],
    ["mistral", { sliding_window: null, num_key_value_heads: 4 }, 131_072],
    ["qwen2", { sliding_window: 1000, num_key_value_heads: 4 }, 32_768],
    ["qwen2", { sliding_window: 1000, num_key_value_heads: 4, use_sliding_window: true }, 1000],
    [
      "qwen2",
      {
        sliding_window: 1000,
        num_key_value_heads: 4,
        use_sliding_window: true,
        max_window_layers: 2,
      },
      32_768,
    ],
    [
      "qwen3",
      {
        sliding_window: 1000,
        num_key_value_heads: 4,
        use_sliding_window: true,
        layer_types: ["full_attention", "sliding_attention"],
      },
      1000,
    ],
    ["phi3", { sliding_window: 2047 }, 2047],
    ["phi3", { sliding_window: 262_144 }, 4096],
  ])("%s with %j serves %d tokens, and says so where that is less", (type, changes, tokens) => {
    const config = parse({ model_type: type, ...changes });
    expect(config.contextTokens).toBe(tokens);
    const isCut = tokens === changes.sliding_window;
    const found = config.notes.map((note) => note.split(" of the model's ")[0]);
    expect(found).toEqual(isCut ? [`The context is ${tokens} tokens`] : []);
  });

  test.each([
    ["model_type", "gemma2", "soft-capped logits"],
    ["model_type", "mixtral", "a mixture of experts"],
    ["model_type", "smollm3", "layers without rotary positions"],
    ["model_type", "our-own", "an architecture that this engine does not know"],
    ["hidden_act", "gelu", "another activation than SiLU"],
    ["rope_scaling", { rope_type: "longrope" }, "scaled in a way it does not know"],
    ["rope_scaling", { type: "su", factor: 4 }, "scaled in a way it does not know"],
    ["rope_parameters", { full_attention: { rope_theta: 1 } }, "positions that differ by layer"],
    ["partial_rotary_factor", 0.5, "rotary positions on a part of each head"],
    ["rope_parameters", { partial_rotary_factor: 0.75 }, "on a part of each head"],
    ["attn_logit_softcapping", 50, "soft-capped attention scores"],
    ["final_logit_softcapping", 30, "soft-capped logits"],
    ["num_local_experts", 8, "a mixture of experts"],
    ["layer_types", ["full_attention", "linear_attention"], "another kind of layer"],
    ["quantization_config", { quant_method: "awq" }, "weights that are quantized in the file"],
  ])("%s %j is refused by name", (key, value, reason) => {
    const refuse = () => parse({ [key]: value });
    expect(refuse).toThrow(ModelError);
    expect(refuse).toThrow(reason);
    expect(refuse).toThrow(/^config\.json: .*another engine$/);
    const found: unknown = Array.isArray(value) ? value.at(-1) : value;
    expect(refuse).toThrow(typeof found === "string" ? found : /factor|rope|capping|experts|quant/);
  });

  test.each([
    [{ rope_type: "llama3", factor: 8 }, "low_freq_factor"],
    [{ rope_type: "linear" }, "factor"],
    [{ rope_type: "yarn", factor: 0.5 }, "factor"],
    [{ rope_type: "yarn", factor: 1e300 }, "factor"],
  ])("rope scaling %j is refused with what is wrong in it", (json, key) => {
    expect(() => parse({ rope_scaling: json })).toThrow(`config.json: rope_scaling.${key}`);
  });

  test.each([
    [{ head_dim: 24 }, "heads have 24 dimensions, but the attention kernel needs a multiple of 16"],
    [
      { head_dim: 528 },
      "heads have 528 dimensions, but the attention kernel needs a multiple of 16, at most 512",
    ],
    [{ head_dim: 528 }, "heads have 528 dimensions"],
    [{ num_attention_heads: 128 }, "heads have 0 dimensions"],
    [
      { num_key_value_heads: 3 },
      "num_attention_heads 4 must be a multiple of num_key_value_heads 3",
    ],
    [{ hidden_size: undefined }, "config.json: hidden_size is not as expected"],
    [{ vocab_size: 1e9 }, "config.json: vocab_size is not as expected"],
    [{ num_hidden_layers: 0 }, "config.json: num_hidden_layers is not as expected"],
  ])("%j is refused", (changes, reason) => {
    expect(() => parse(changes)).toThrow(ModelError);
    expect(() => parse(changes)).toThrow(reason);
  });

  test.each(["", "{", "[]", "null", '"llama"'])("%j is refused with the file's name", (json) => {
    expect(() => parseModelConfig(json, "some/config.json")).toThrow(ModelError);
    expect(() => parseModelConfig(json, "some/config.json")).toThrow(/^some\/config\.json/);
  });
});
