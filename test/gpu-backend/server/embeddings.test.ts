import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EmbeddingsAnswer } from "../../../src/protocol/embeddings.ts";
import {
  ENGINE_START_MS_MAX,
  readProblem,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine();
}, ENGINE_START_MS_MAX);
afterAll(() => engine.stop());

async function embed(body: object): Promise<EmbeddingsAnswer> {
  const response = await engine.post("/v1/embeddings", body);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return JSON.parse(await response.text());
}

async function vectorsOf(input: unknown): Promise<number[][]> {
  const { data } = await embed({ input });
  return data.map(({ embedding }) => (typeof embedding === "string" ? [] : [...embedding]));
}

const product = (a: readonly number[] = [], b: readonly number[] = []): number =>
  a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);

describe("POST /v1/embeddings", () => {
  test("gives each text a vector of unit length, in the order of the texts", async () => {
    const { object, data, model } = await embed({ input: ["a fox", "", " ", "a fox"] });
    expect({ object, model }).toEqual({ object: "list", model: "sluice-tiny" });
    expect(data.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    for (const { embedding } of data) {
      const vector = typeof embedding === "string" ? [] : embedding;
      expect(vector).toHaveLength(256);
      expect(product(vector, vector)).toBeCloseTo(1, 5);
    }
    expect(data[3]?.embedding).toEqual(data[0]?.embedding);
  });

  test("does not depend on what else is computed, nor on how often it was before", async () => {
    const [alone] = await vectorsOf("The old fox sat by the river.");
    const together = await vectorsOf([
      "x ".repeat(600),
      "The old fox sat by the river.",
      "Red, green and blue",
    ]);
    expect(together[1]).toEqual(alone);
    expect(await vectorsOf("The old fox sat by the river.")).toEqual([alone]);
  });

  test("puts texts alike closer together than others", async () => {
    const [fox, wolf, sum] = await vectorsOf([
      "Once there was a little fox in the forest.",
      "Once there was a little wolf in the forest.",
      "12 + 30 = 42",
    ]);
    expect(product(fox, wolf)).toBeGreaterThan(product(fox, sum));
  });

  test("is the same in base64 and as numbers, for a text and for its tokens", async () => {
    const [numbers = []] = await vectorsOf("harbour");
    const { data } = await embed({ input: "harbour", encoding_format: "base64" });
    const bytes = Buffer.from(String(data[0]?.embedding), "base64");
    const decoded = Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
    expect(decoded).toEqual(numbers);
    const tokenized = await engine.post("/v1/tokenize", { prompt: "harbour" });
    const { tokens }: { tokens: number[] } = JSON.parse(await tokenized.text());
    expect(await vectorsOf(tokens)).toEqual([numbers]);
    expect(await vectorsOf([tokens])).toEqual([numbers]);
  });

  test("counts the tokens of all texts, and leaves no block behind", async () => {
    const { usage } = await embed({ input: ["one", "one"] });
    expect(usage.prompt_tokens).toBe(2 * (await embed({ input: "one" })).usage.prompt_tokens);
    expect(usage.total_tokens).toBe(usage.prompt_tokens);
    expect(await engine.idleKvUsage()).toBe(0);
  });

  test.each([
    [{ input: [] }, "empty_array", "input"],
    [{}, "missing_required_parameter", "input"],
    [{ input: "a", dimensions: 64 }, "unsupported_parameter", "dimensions"],
    [{ input: "a", encoding_format: "hex" }, "invalid_value", "encoding_format"],
    [{ input: ["a", "b".repeat(100_000)] }, "context_length_exceeded", "input[1]"],
    [{ input: [4096] }, "invalid_value", "input"],
  ])("refuses %o", async (body, code, param) => {
    const problem = await readProblem(await engine.post("/v1/embeddings", body));
    expect(problem).toMatchObject({ status: 400, code, param });
  });
});
