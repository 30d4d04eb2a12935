import { describe, expect, onTestFinished, test } from "vitest";
import { ENGINE_HEADERS } from "../../../src/protocol/headers.ts";
import type { TestEngine } from "../../support/running-engine.ts";
import { ENGINE_START_MS_MAX, readCompletion, startEngine } from "../../support/running-engine.ts";

const TEXT = "The lamp stood by the window, and the fox looked at it. ".repeat(20);

async function anEngineWith(...flags: readonly string[]): Promise<TestEngine> {
  const engine = await startEngine(["--kv-blocks", "160", ...flags]);
  onTestFinished(() => engine.stop());
  return engine;
}

/** Asks as a tenant, and returns how much of the prompt was found cached, with the answer. */
async function ask(engine: TestEngine, tenant: string, number: number) {
  const response = await engine.chat(
    {
      messages: [{ role: "user", content: `${number} ${TEXT}` }],
      max_completion_tokens: 8,
      temperature: 0,
    },
    {
      headers: {
        [ENGINE_HEADERS.tenant]: tenant,
        [ENGINE_HEADERS.cacheSalt]: `salt-of-${tenant}`,
      },
    },
  );
  const { usage, choices } = await readCompletion(response);
  const { prompt_tokens: promptTokens, prompt_tokens_details: details } = usage;
  return { promptTokens, cachedTokens: details.cached_tokens, text: choices[0]?.message.content };
}

/** Lets a tenant cache a prompt, another one ten times as much, and returns what is left of the first. */
async function leftBeside(engine: TestEngine): Promise<number> {
  const cold = await ask(engine, "quiet", 0);
  const warm = await ask(engine, "quiet", 0);
  expect(cold.cachedTokens).toBe(0);
  expect(warm.cachedTokens).toBeGreaterThan(0.9 * warm.promptTokens);
  for (let number = 1; number <= 10; number += 1) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    await ask(engine, "busy", number);
  }
  const left = await ask(engine, "quiet", 0);
  expect(left.text).toBe(cold.text);
  return left.cachedTokens / warm.cachedTokens;
}

describe("what a tenant has cached", { timeout: ENGINE_START_MS_MAX }, () => {
  test.each(["borrow", "strict"])(
    "within its share is evicted by nobody else (%s)",
    async (mode) => {
      const engine = await anEngineWith("--kv-shares", "2", "--isolation", mode);
      expect(await leftBeside(engine)).toBe(1);
    },
  );

  test("goes when another one needs the room where there are no shares", async () => {
    expect(await leftBeside(await anEngineWith())).toBeLessThan(1);
  });
});
