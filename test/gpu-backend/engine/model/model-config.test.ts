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
      normEpsilon: 1e-6,
      tiedEmbeddings: false,
      eosTokenIds: [2],
    });
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
    ["model_type", "qwen2", "another architecture than Llama"],
    ["hidden_act", "gelu", "another activation than SiLU"],
    ["attention_bias", true, "biases in the attention projections"],
    ["mlp_bias", true, "biases in the MLP"],
    ["rope_scaling", { rope_type: "yarn", factor: 4 }, "scaled rotary positions"],
    ["rope_parameters", { rope_type: "llama3" }, "scaled rotary positions"],
    ["partial_rotary_factor", 0.5, "rotary positions on a part of each head"],
    ["sliding_window", 4096, "sliding-window attention"],
    ["quantization_config", { quant_method: "awq" }, "weights that are quantized in the file"],
  ])("%s %j is refused by name", (key, value, reason) => {
    const refuse = () => parse({ [key]: value });
    expect(refuse).toThrow(ModelError);
    expect(refuse).toThrow(reason);
    expect(refuse).toThrow(/^config\.json: .*another engine$/);
  });

  test.each([
    [{ head_dim: 24 }, "heads have 24 dimensions, but the attention kernel needs a multiple of 16"],
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
