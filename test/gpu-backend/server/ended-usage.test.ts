import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { EndedRequests } from "../../../gpu-backend/server/ended-requests.ts";
import type { ChatCompletion } from "../../../src/protocol/chat-response.ts";
import { EngineUsageAnswer } from "../../../src/protocol/engine-usage.ts";
import { EngineHold } from "../../support/engine-hold.mjs";
import type { TestEngine } from "../../support/running-engine.ts";
import { ENGINE_START_MS_MAX, startEngine } from "../../support/running-engine.ts";

const SECRET = "a-secret-of-more-than-thirty-two-characters";

const hold = new EngineHold();
let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine([], SECRET, hold);
}, ENGINE_START_MS_MAX);
afterEach(() => hold.letGo());
afterAll(() => engine.stop());

async function usageOf(...ids: readonly string[]): Promise<EngineUsageAnswer["usage"]> {
  const response = await engine.post("/internal/usage", { request_ids: ids });
  expect(response.status).toBe(200);
  return EngineUsageAnswer.parse(await response.json()).usage;
}

const named = (id: string): RequestInit => ({ headers: { "x-gw-request-id": id } });

describe("POST /internal/usage", () => {
  test("tells what a whole answer has cost, as the answer itself did", async () => {
    const response = await engine.chat({ max_tokens: 5, n: 2 }, named("whole"));
    const { usage }: ChatCompletion = JSON.parse(await response.text());
    expect(await usageOf("whole", "another")).toEqual([
      {
        request_id: "whole",
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage.prompt_tokens_details.cached_tokens,
        completion_tokens: 10,
      },
    ]);
  });

  test("tells what was made of an answer whose reader has gone", async () => {
    const leaving = new AbortController();
    hold.hold();
    const response = await engine.chat(
      { stream: true, max_tokens: 1500, ignore_eos: true },
      { ...named("left"), signal: leaving.signal },
    );
    await response.body?.getReader().read();
    expect(await usageOf("left")).toEqual([]);
    leaving.abort();
    const isTold = async () => (await usageOf("left")).length > 0;
    await engine.stepUntil("the engine has let go of it", isTold);
    const [usage] = await usageOf("left");
    expect(usage?.prompt_tokens).toBeGreaterThan(0);
    expect(usage?.completion_tokens).toBeGreaterThan(0);
    expect(usage?.completion_tokens).toBeLessThan(1500);
  });

  test("tells what texts have cost that were embedded", async () => {
    const asked = { input: ["one", "two"] };
    const response = await engine.post("/v1/embeddings", asked, named("embedded"));
    const told: unknown = await response.json();
    const [usage] = await usageOf("embedded");
    expect(told).toMatchObject({ usage: { prompt_tokens: usage?.prompt_tokens } });
    expect(usage?.prompt_tokens).toBeGreaterThan(0);
  });

  test("is for whoever has the secret, asks no more than a thousand, and has one method", async () => {
    const open = await fetch(`${engine.url}/internal/usage`, { method: "POST", body: "{}" });
    expect(open.status).toBe(401);
    const ids = Array.from({ length: 1_001 }, () => "a");
    expect((await engine.post("/internal/usage", { request_ids: ids })).status).toBe(400);
    expect((await engine.fetch("/internal/usage")).status).toBe(405);
  });
});

const usage = (id: string, outputTokens: number) => ({
  request_id: id,
  prompt_tokens: 1,
  cached_tokens: 0,
  completion_tokens: outputTokens,
});

describe("EndedRequests", () => {
  test("forgets the oldest beyond its bound", () => {
    const ended = new EndedRequests(2);
    for (const id of ["a", "b", "c"]) ended.note(usage(id, 1));
    expect(ended.of(["a", "b", "c"]).map((one) => one.request_id)).toEqual(["b", "c"]);
    ended.note(usage("b", 1));
    ended.note(usage("d", 1));
    expect(ended.of(["b", "c", "d"]).map((one) => one.request_id)).toEqual(["b", "d"]);
  });

  test("keeps of a request that came twice the part that went furthest", () => {
    const ended = new EndedRequests();
    for (const outputTokens of [3, 7, 5]) ended.note(usage("a", outputTokens));
    expect(ended.of(["a"])).toEqual([usage("a", 7)]);
  });
});
