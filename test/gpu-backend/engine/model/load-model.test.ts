import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadModel } from "../../../../gpu-backend/engine/model/load-model.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";

const MODELS = join(import.meta.dirname, "../../../../gpu-backend/models");

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "model-"));
  await cp(join(MODELS, "sluice-tiny-draft"), directory, { recursive: true });
});
afterEach(() => rm(directory, { recursive: true }));

const pathOf = (name: string) => join(directory, name);

async function changeJson(name: string, changes: Record<string, unknown>): Promise<void> {
  const old: object = JSON.parse(await readFile(pathOf(name), "utf8"));
  await writeFile(pathOf(name), JSON.stringify({ ...old, ...changes }));
}

/** Renames a tensor in the header by another name of the same length. */
async function renameTensor(from: string, to: string): Promise<void> {
  const bytes = await readFile(pathOf("model.safetensors"), "latin1");
  expect(to.length).toBe(from.length);
  await writeFile(pathOf("model.safetensors"), bytes.replace(from, to), "latin1");
}

async function eosTokenIdsNow(): Promise<readonly number[]> {
  const model = await loadModel(directory);
  model.close();
  return model.eosTokenIds;
}

/** What all files of the directory come to. */
async function revisionNow(): Promise<string> {
  const model = await loadModel(directory);
  const revision = model.revision();
  model.close();
  return revision;
}

/** The message of the refusal, without the directory that it must name. */
async function refusal(): Promise<string> {
  const outcome = await loadModel(directory).catch((error: unknown) => error);
  if (!(outcome instanceof ModelError)) throw new Error("the model was not refused in words");
  expect(outcome.message).toContain(directory);
  return outcome.message.replaceAll(`${directory}/`, "");
}

describe("loadModel", () => {
  test("the bundled model is loaded with all that its card says", async () => {
    const model = await loadModel(join(MODELS, "sluice-tiny"));
    expect(model.parameterCount).toBe(5_401_856);
    expect(model.config).toMatchObject({ layerCount: 6, contextTokens: 2048 });
    expect(model.layers).toHaveLength(6);
    expect(model.embedding).toMatchObject({ outputs: 4096, inputs: 256 });
    expect(model.layers[5]?.down).toMatchObject({ outputs: 256, inputs: 688 });
    expect(model.eosTokenIds).toEqual([5, 1]);
    model.close();
  });

  test("a tied head is the embedding itself", async () => {
    const model = await loadModel(directory);
    expect(model.head).toBe(model.embedding);
    model.close();
  });

  test("one changed bit of weights or configuration is another revision", async () => {
    const revision = await revisionNow();
    expect(revision).toMatch(/^[0-9a-f]{64}$/);
    expect(await revisionNow()).toBe(revision);

    const weights = await readFile(pathOf("model.safetensors"));
    const changed = Buffer.from(weights);
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    await writeFile(pathOf("model.safetensors"), changed);
    const otherWeights = await revisionNow();
    expect(otherWeights).not.toBe(revision);

    await writeFile(pathOf("model.safetensors"), weights);
    await changeJson("config.json", { rope_theta: 10_001 });
    const otherTheta = await revisionNow();
    expect(new Set([revision, otherWeights, otherTheta]).size).toBe(3);
  });

  test("generation_config.json decides which tokens end the output", async () => {
    await changeJson("generation_config.json", { eos_token_id: 7 });
    expect(await eosTokenIdsNow()).toEqual([7]);
  });

  test("without generation_config.json config.json decides", async () => {
    await rm(pathOf("generation_config.json"));
    expect(await eosTokenIdsNow()).toEqual([1, 5]);
  });

  test("a generation_config.json that leaves the tokens open does not decide", async () => {
    await writeFile(pathOf("generation_config.json"), "{}");
    expect(await eosTokenIdsNow()).toEqual([1, 5]);
  });

  test("a broken generation_config.json is refused", async () => {
    await writeFile(pathOf("generation_config.json"), '{"eos_token_id": "<eos>"}');
    expect(await refusal()).toContain("eos_token_id must be a token id or a list");
  });

  test("a directory without config.json is refused", async () => {
    await rm(pathOf("config.json"));
    expect(await refusal()).toContain("a model directory holds config.json and model.safetensors");
  });

  test("a directory without weights is refused", async () => {
    await rm(pathOf("model.safetensors"));
    expect(await refusal()).toContain("Cannot read");
  });

  test("a tensor that the engine does not know is refused, not left out", async () => {
    await renameTensor(
      "model.layers.1.self_attn.k_proj.weight",
      "model.layers.1.self_attn.q_norm.weight",
    );
    expect(await refusal()).toContain("has no tensor model.layers.1.self_attn.k_proj.weight");
    await renameTensor(
      "model.layers.1.self_attn.q_norm.weight",
      "model.layers.1.self_attn.k_proj.weight",
    );
    await changeJson("config.json", { num_hidden_layers: 1 });
    expect(await refusal()).toContain(
      "holds model.layers.1.input_layernorm.weight, which this engine does not",
    );
  });

  test("a shape other than the configuration's is refused", async () => {
    await changeJson("config.json", { intermediate_size: 351 });
    expect(await refusal()).toContain("but config.json implies [351, 128]");
  });

  test("an untied model without a head of its own is refused", async () => {
    await changeJson("config.json", { tie_word_embeddings: false });
    expect(await refusal()).toContain("has no tensor lm_head.weight");
  });
});
