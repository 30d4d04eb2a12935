import { expect, test, vi } from "vitest";
import { refusal } from "./support/answers.ts";
import { aGateway, CHAT_PATH, fetchGateway } from "./support/gateway.ts";
import { prefillingAt } from "./support/replica.ts";
import { wholeAnswer } from "./support/upstream.ts";

const LARGE = 100_000;

test("a large body is decoded once, parsed once and never written anew, however many replicas are asked", async () => {
  const gateway = await aGateway({
    replicaCount: 2,
    contextTokens: 2_000_000,
    replica: { report: prefillingAt(0) },
  });
  await gateway.upstream.answerWith(refusal(503, "loading"), wholeAnswer("a"));
  const content = "lorem ipsum \\n".repeat(80_000);
  const body = `{"messages":[{"role":"user","content":"${content}"}],"model":"${gateway.modelId}"}`;
  const { parse, stringify } = JSON;
  const decode = Reflect.get(TextDecoder.prototype, "decode");
  const large = { parsed: 0, written: 0, decoded: 0 };
  const weigh = (kind: keyof typeof large, text: string): void => {
    if (text.length >= LARGE) large[kind] += text.length;
  };
  vi.spyOn(JSON, "parse").mockImplementation((...args) => {
    weigh("parsed", args[0]);
    return parse(...args);
  });
  vi.spyOn(JSON, "stringify").mockImplementation((...args: Parameters<typeof stringify>) => {
    const text = stringify(...args);
    weigh("written", text ?? "");
    return text;
  });
  vi.spyOn(TextDecoder.prototype, "decode").mockImplementation(function (
    this: TextDecoder,
    ...args
  ) {
    const text: string = Reflect.apply(decode, this, args);
    weigh("decoded", text);
    return text;
  });
  const response = await fetchGateway(CHAT_PATH, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}` },
    body,
  });
  vi.restoreAllMocks();
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const sent = await gateway.upstream.requests();
  expect(sent.map((request) => request.body.includes(content))).toEqual([true, true]);
  expect(large).toEqual({ parsed: body.length, decoded: body.length, written: 0 });
});
