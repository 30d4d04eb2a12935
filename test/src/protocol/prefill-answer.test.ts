import { expect, test } from "vitest";
import { PrefillAnswer } from "../../../src/protocol/prefill-answer.ts";

const ANSWER = { object: "prefill", prompt_tokens: 100, cached_tokens: 16, held_tokens: 96 };

test("an answer that is none to a prefill is told from one", () => {
  expect(PrefillAnswer.parse(ANSWER)).toEqual(ANSWER);
  const chat = { object: "chat.completion", choices: [], usage: { prompt_tokens: 100 } };
  expect(PrefillAnswer.safeParse(chat).success).toBe(false);
  expect(PrefillAnswer.safeParse({ ...ANSWER, held_tokens: -1 }).success).toBe(false);
});
