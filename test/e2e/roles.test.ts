import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseMetrics, valueOf } from "../support/metric-lines.ts";
import { eventually } from "../support/eventually.ts";
import { RunningStack } from "./support/running-stack.ts";

/** Of some hundred tokens, and for each name another one. */
const longPrompt = (name: string) =>
  `${name}: ${"the quick brown fox jumps over the dog. ".repeat(40)}`;

describe("a gateway with an engine that prefills and one that decodes", () => {
  let stack: RunningStack;
  beforeAll(async () => {
    stack = await RunningStack.ready("--roles", "prefill,decode");
  });
  afterAll(() => stack?.dispose());

  async function ask(content: string) {
    return stack.clientOf("chat").chat.completions.create({
      model: "sluice-tiny",
      messages: [{ role: "user", content }],
      max_completion_tokens: 8,
      temperature: 0,
    });
  }

  test("long prompts are computed by the one and answered by the other, short ones by the other alone", async () => {
    const { usage } = await ask(longPrompt("first"));
    expect(usage?.prompt_tokens).toBeGreaterThan(300);
    // What was moved had been computed for this request.
    expect(usage?.prompt_tokens_details?.cached_tokens).toBe(0);
    await ask("short");
    expect(await stack.metricOfEach("engine_prefill_requests_total")).toEqual([1, 0]);
    const [, loadedBlocks] = await stack.metricOfEach("engine_peer_loaded_blocks_total");
    expect(loadedBlocks).toBeGreaterThan(15);
    const [made, answered] = await stack.metricOfEach("engine_generation_tokens_total");
    expect(made).toBe(0);
    expect(answered).toBeGreaterThan(8);
    const metrics = parseMetrics(await stack.metrics());
    expect(valueOf(metrics, "gw_prefills_split_total", { pool: "local" })).toBe(1);
  });

  test("each serves all that comes while the other is gone", async () => {
    for (const index of [0, 1]) {
      const { pid = 0 } = stack.engines[index] ?? {};
      process.kill(pid, "SIGKILL");
      let text: string | null | undefined;
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await eventually("the other one answers", async () => {
        const { choices } = await ask(longPrompt(`without ${index}`));
        text = choices[0]?.message.content;
        return true;
      });
      expect(text).toMatch(/./);
      // oxlint-disable-next-line no-await-in-loop -- the launcher starts it anew
      await stack.whenAllReady();
    }
  });
});
