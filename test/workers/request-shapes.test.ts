import { describe, expect, test } from "vitest";
import { aGateway, readEvents, textOf } from "./support/gateway.ts";
import { jsonAnswer, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const CALL = { id: "call_1", type: "function", function: { name: "get_tide", arguments: "{}" } };

describe("a turn of the assistant that calls tools", () => {
  test.each([
    ["has no content", {}],
    ["has null for its content", { content: null }],
  ])(
    "and %s reaches the replica as it is, and the calls of the answer come back",
    async (_, own) => {
      const gateway = await aGateway();
      const message = { role: "assistant", content: null, tool_calls: [CALL] };
      await gateway.upstream.answerWith(
        jsonAnswer({
          id: "chatcmpl-1",
          object: "chat.completion",
          created: 1,
          model: "up",
          choices: [{ index: 0, message, finish_reason: "tool_calls" }],
        }),
      );
      const turn = { role: "assistant", ...own, tool_calls: [CALL] };
      const messages = [
        { role: "user", content: "tide?" },
        turn,
        { role: "tool", tool_call_id: "call_1", content: "high" },
      ];
      const response = await gateway.ask({ body: { messages } });
      expect(await response.json()).toMatchObject({
        choices: [{ message, finish_reason: "tool_calls" }],
      });
      const [request] = await gateway.upstream.requests();
      expect(JSON.parse(request?.body ?? "").messages[1]).toEqual(turn);
    },
  );
});

describe("stream_options", () => {
  test("go to the replica with a stream alone, and null asks for no counts", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"), streamedAnswer(["b"]));
    await gateway.ask({ body: { stream: false, stream_options: null } });
    const streamed = await gateway.ask({ body: { stream: true, stream_options: null } });
    const events = await readEvents(streamed);
    expect(textOf(events)).toBe("b");
    expect(JSON.stringify(events)).not.toContain("prompt_tokens");
    const bodies = (await gateway.upstream.requests()).map(({ body }) => JSON.parse(body));
    expect(bodies[0]).not.toHaveProperty("stream_options");
    expect(bodies[1]).toMatchObject({ stream_options: { include_usage: true } });
  });
});

describe("equal prompts", () => {
  test("share no answer, whatever parameter tells them apart, and not even if none does", async () => {
    const gateway = await aGateway();
    const answers = ["first", "second", "third", "fourth"];
    await gateway.upstream.answerWith(...answers.map(wholeAnswer));
    const wishes = [{ max_tokens: 16 }, { max_tokens: 400 }, { max_tokens: 16, top_k: 5 }];
    for (const [index, wish] of [...wishes, { max_tokens: 16 }].entries()) {
      // oxlint-disable-next-line no-await-in-loop -- the answers have an order
      const response = await gateway.ask({ body: { temperature: 0, ...wish } });
      // oxlint-disable-next-line no-await-in-loop -- likewise
      expect(await response.json()).toMatchObject({
        choices: [{ message: { content: answers[index] } }],
      });
    }
  });
});
