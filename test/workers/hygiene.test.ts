import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { settingsOf } from "../../workers/settings.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { refusal } from "./support/answers.ts";
import { aGateway, COMPLETION_PATH, EMBEDDINGS_PATH, fetchGateway } from "./support/gateway.ts";
import { DONE_FRAME, EVENT_STREAM_HEAD, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const { adminKey } = settingsOf(env);
const BIG = "9007199254740993";
const JSON_TYPE = { "content-type": "application/json" };

describe("HEAD", () => {
  test("is answered as GET, without the body, wherever there is a GET", async () => {
    const { key, poolId } = await aGateway();
    const paths = [
      ["/health", key],
      ["/v1/models", key],
      ["/v1/models/sluice-tiny", key],
      ["/v1/models/nobody", key],
      ["/metrics", adminKey],
      ["/metrics", key],
      ["/admin/v1/status", adminKey],
      [`/admin/v1/pools/${poolId}`, adminKey],
      [`/admin/v1/pools/${poolId}/decisions`, adminKey],
      ["/nowhere", key],
    ] as const;
    for (const [path, bearer] of paths) {
      const ask = async (method: string) => {
        const headers = { authorization: `Bearer ${bearer}` };
        const response = await fetchGateway(path, { method, headers });
        const said = [response.status, response.headers.get("content-type")];
        return { said, body: await response.text() };
      };
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const [got, headed] = [await ask("GET"), await ask("HEAD")];
      expect([path, ...headed.said]).toEqual([path, ...got.said]);
      expect([headed.body, got.body === ""]).toEqual(["", false]);
    }
  });

  test("of what is only posted to is 405 without a body", async () => {
    const response = await fetchGateway(COMPLETION_PATH, { method: "HEAD" });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
    expect(await response.text()).toBe("");
  });
});

describe("a body", () => {
  test.each([
    ["/v1/chat/completions", '"messages":[{"role":"user","content":"x","x_id":BIG}]'],
    [COMPLETION_PATH, '"prompt":"x"'],
    [EMBEDDINGS_PATH, '"input":"x"'],
  ])(
    "reaches the replica of %s with its numbers and unknown fields as they were",
    async (path, own) => {
      const { key, upstream } = await aGateway();
      await upstream.answerWith(refusal(500, "enough"));
      const members = `${own},"x_unknown":{"id":BIG,"rate":1.0,"e":1E5},"metadata":{"n":-0}`;
      const json = `{"model":"sluice-tiny",${members}}`.replaceAll("BIG", BIG);
      const headers = { authorization: `Bearer ${key}` };
      await fetchGateway(path, { method: "POST", headers, body: json });
      expect((await upstream.requests()).map(({ body }) => body)).toEqual([json]);
    },
  );

  test("comes back chunk by chunk with its numbers and unknown fields as they were", async () => {
    const { ask, upstream } = await aGateway({ modelId: "alias" });
    const chunk = `{"created":${BIG},"x_score":1.0,"choices":[{"index":0,"delta":{"content":"a"},"x_id":${BIG},"finish_reason":"stop"}],"model":"up"}`;
    await upstream.answerWith([
      EVENT_STREAM_HEAD,
      { kind: "text", text: `data: ${chunk}\n\n` },
      DONE_FRAME,
      { kind: "end" },
    ]);
    const text = await (await ask({ body: { stream: true } })).text();
    const told = chunk.replace('"up"}', '"alias","service_tier":"default"}');
    expect(text).toBe(`data: ${told}\n\ndata: [DONE]\n\n`);
  });

  test("of vectors comes back with every digit, under the client's name for the model", async () => {
    const { ask, upstream } = await aGateway({ modelId: "alias" });
    const json = `{"object":"list","data":[{"index":0,"embedding":[0.10000000000000000555]}],"model":"up","x_id":${BIG},"usage":{"prompt_tokens":1,"total_tokens":1}}`;
    await upstream.answerWith(refusal(200, json, JSON_TYPE));
    const response = await ask({ path: EMBEDDINGS_PATH, body: { input: "x" } });
    expect(await response.text()).toBe(json.replace('"up"', '"alias"'));
  });
});

describe("what a replica says of itself", () => {
  test("is sent down with no answer: streamed, whole, refused or broken", async () => {
    const { ask, upstream } = await aGateway();
    const own = {
      "set-cookie": "crumb=replica",
      server: "replica-server",
      via: "replica-proxy",
      "x-powered-by": "replica-power",
      "x-replica-version": "replica-7",
    };
    const withOwn = (steps: readonly UpstreamStep[]): UpstreamStep[] =>
      steps.map((step) =>
        step.kind === "head" ? { ...step, headers: { ...step.headers, ...own } } : step,
      );
    await upstream.answerWith(
      withOwn(streamedAnswer(["a"])),
      withOwn(wholeAnswer("a")),
      refusal(400, { error: { message: "no" } }, own),
      refusal(502, "replica stack trace", own),
    );
    const statuses: number[] = [];
    for (const stream of [true, false, false, true]) {
      // oxlint-disable-next-line no-await-in-loop -- the answers have an order
      const response = await ask({ body: { stream } });
      statuses.push(response.status);
      // oxlint-disable-next-line no-await-in-loop -- likewise
      const said = JSON.stringify([...response.headers]) + (await response.text());
      expect(said).not.toContain("replica");
      expect(response.headers.has("set-cookie") || response.headers.has("server")).toBe(false);
    }
    expect(statuses).toEqual([200, 200, 400, 502]);
  });
});
