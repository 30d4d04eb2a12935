import { describe, expect, test } from "vitest";
import type { Answer, AnswerPart } from "../../../gpu-backend/server/answer.ts";
import {
  aByteAnswer,
  aLogprob,
  END_TOKEN,
  finishedBy,
  tokensOf,
} from "../../support/byte-answers.ts";

function hearText(answer: Answer, text: string): void {
  for (const event of tokensOf(text)) answer.hear(event);
}

function hearToken(answer: Answer, tokenId: number): void {
  answer.hear({ kind: "token", id: "a", tokenId });
}

/** Reads on until nothing more is there. */
function takeAll(answer: Answer): AnswerPart[] {
  const parts: AnswerPart[] = [];
  for (let part = answer.take(); part !== undefined; part = answer.take()) parts.push(part);
  return parts;
}

const bytesOf = (value: string): number[] => [...new TextEncoder().encode(value)];

/** Text, and the tokens that account for it: those of its bytes unless others are given. */
const text = (value: string, tokenIds: readonly number[] | undefined = bytesOf(value)) => ({
  kind: "text",
  text: value,
  logprobs: [],
  tokenIds,
});

describe("Answer", () => {
  test("each token is told when it is read at once", () => {
    const { answer } = aByteAnswer();
    for (const letter of "abc") {
      hearText(answer, letter);
      expect(takeAll(answer)).toEqual([text(letter)]);
    }
  });

  test("what nobody read is one part, with its ending behind it", () => {
    const { answer } = aByteAnswer();
    hearText(answer, "a long story");
    answer.hear(finishedBy("length", 12));
    const { tokenIds, ...unaccounted } = text("a long story");
    expect(takeAll(answer)).toEqual([
      unaccounted,
      {
        kind: "finished",
        reason: "length",
        counts: { promptTokens: 5, cachedTokens: 2, outputTokens: 12 },
        tokenIds,
      },
    ]);
    expect(answer.hasPart).toBe(false);
  });

  test("the first token is told though it has no text yet, the second not until it has", () => {
    const { answer } = aByteAnswer();
    const [first = 0, second = 0] = new TextEncoder().encode("é");
    hearToken(answer, first);
    expect(answer.take()).toEqual(text("", [first]));
    expect(answer.hasPart).toBe(false);
    hearToken(answer, second);
    expect(answer.take()).toEqual(text("é", [second]));
  });

  test("the token that ends an answer is counted and has no text", () => {
    const { answer } = aByteAnswer();
    hearText(answer, "ok");
    hearToken(answer, END_TOKEN);
    answer.hear(finishedBy("stop", 3));
    expect(takeAll(answer)).toMatchObject([
      { text: "ok" },
      { reason: "stop", counts: { outputTokens: 3 } },
    ]);
  });

  test("a stop string cancels once, and the token that completes it is the last one counted", () => {
    const { answer, cancels } = aByteAnswer({ stop: ["lo w"] });
    hearText(answer, "hello world");
    expect(cancels()).toBe(1);
    expect(answer.isComplete).toBe(true);
    answer.hear(finishedBy("cancelled", 11));
    expect(takeAll(answer)).toMatchObject([
      { text: "hel" },
      { reason: "stop", counts: { outputTokens: 7 } },
    ]);
  });

  test("a stop string counts the same whether its answer had come to an end by then or not", () => {
    const { answer } = aByteAnswer({ stop: ["lo"] });
    hearText(answer, "hello");
    answer.hear(finishedBy("length", 5));
    expect(takeAll(answer)).toMatchObject([
      { text: "hel" },
      { reason: "stop", counts: { outputTokens: 5 } },
    ]);
  });

  test("a stop string that is to be included is the end of the text", () => {
    const { answer } = aByteAnswer({ stop: ["lo"], isIncluded: true });
    hearText(answer, "hello world");
    expect(takeAll(answer)).toMatchObject([{ text: "hello" }]);
  });

  test.each([
    { outputTokensMin: 0, kept: "h", outputTokens: 2 },
    { outputTokensMin: 1, kept: "h", outputTokens: 2 },
    { outputTokensMin: 2, kept: "hello th", outputTokens: 9 },
  ])(
    "a stop string within a minimum of $outputTokensMin tokens stays in the text, one behind it ends it",
    ({ outputTokensMin, kept, outputTokens }) => {
      const { answer } = aByteAnswer({ stop: ["e"], outputTokensMin });
      hearText(answer, "hello there");
      answer.hear(finishedBy("cancelled", 11));
      const parts = takeAll(answer);
      expect(parts).toMatchObject([{ text: kept }, { reason: "stop", counts: { outputTokens } }]);
    },
  );

  test("text held back for a stop string that never came is told at the end", () => {
    const { answer } = aByteAnswer({ stop: ["world peace"] });
    hearText(answer, "hello world");
    answer.hear(finishedBy("length", 11));
    expect(takeAll(answer)).toMatchObject([{ text: "hello world" }, { reason: "length" }]);
  });

  test("half a character at the end is one replacement character", () => {
    const { answer } = aByteAnswer();
    const [lead = 0] = new TextEncoder().encode("é");
    hearText(answer, "x");
    hearToken(answer, lead);
    answer.hear(finishedBy("length", 2));
    expect(takeAll(answer)).toMatchObject([{ text: "x\ufffd" }, { reason: "length" }]);
  });

  test("an answer that was cancelled from outside has no finish reason", () => {
    const { answer } = aByteAnswer();
    hearText(answer, "hel");
    answer.hear(finishedBy("cancelled", 3));
    expect(takeAll(answer)).toMatchObject([{ text: "hel" }, { kind: "cancelled" }]);
  });

  test("a failure comes after the text that was there before it", () => {
    const { answer } = aByteAnswer();
    hearText(answer, "hel");
    answer.hear({ kind: "failed", id: "a", message: "poison" });
    const failed = { kind: "failed", id: "a", message: "poison" };
    expect(takeAll(answer)).toEqual([text("hel"), failed]);
  });

  test("what is known of the prompt comes before everything else", () => {
    const { answer } = aByteAnswer();
    const logprobs = [undefined, aLogprob(7)];
    answer.hear({ kind: "prompt-logprobs", id: "a", logprobs });
    hearText(answer, "hel");
    expect(takeAll(answer)).toEqual([{ kind: "prompt", logprobs }, text("hel")]);
  });
});

/** Of each part the tokens whose log probabilities it tells. */
function scoredTokens(parts: readonly AnswerPart[]): number[][] {
  return parts.map((part) => (part.kind === "text" ? part.logprobs.map((one) => one.tokenId) : []));
}

describe("the log probabilities of an answer", () => {
  test("are one a token that is counted, the last one's among them", () => {
    const { answer } = aByteAnswer({ stop: ["lo"] });
    for (const event of tokensOf("hello world", true)) answer.hear(event);
    answer.hear(finishedBy("cancelled", 11));
    const parts = takeAll(answer);
    expect(scoredTokens(parts).flat()).toEqual([...Buffer.from("hello")]);
    expect(parts.at(-1)).toMatchObject({ counts: { outputTokens: 5 } });
  });

  test("do not betray text that is held back for a stop string", () => {
    const { answer } = aByteAnswer({ stop: ["low"] });
    for (const event of tokensOf("hello", true)) answer.hear(event);
    expect(scoredTokens(takeAll(answer))).toEqual([[...Buffer.from("hel")]]);
    for (const event of tokensOf(" ", true)) answer.hear(event);
    expect(scoredTokens(takeAll(answer))).toEqual([[...Buffer.from("lo ")]]);
  });

  test("of half a character come with its other half", () => {
    const { answer } = aByteAnswer();
    const [first, second, third] = tokensOf("xé", true);
    for (const event of [first, second]) if (event !== undefined) answer.hear(event);
    expect(scoredTokens(takeAll(answer))).toEqual([[...Buffer.from("x")]]);
    if (third !== undefined) answer.hear(third);
    expect(scoredTokens(takeAll(answer))).toEqual([[...Buffer.from("é")]]);
  });

  test("of a token without text come without text", () => {
    const { answer } = aByteAnswer();
    for (const event of tokensOf("x", true)) answer.hear(event);
    takeAll(answer);
    answer.hear({ kind: "token", id: "a", tokenId: END_TOKEN, logprob: aLogprob(END_TOKEN) });
    const logprobs = [aLogprob(END_TOKEN)];
    expect(takeAll(answer)).toEqual([{ ...text("", [END_TOKEN]), logprobs }]);
  });
});

/** The state in which another engine left an answer, of which this one computes some tokens again. */
function goesOnBehind(value: string, againCount: number, options: { stop?: string[] } = {}) {
  const { answer, cancels } = aByteAnswer(options);
  hearText(answer, value);
  takeAll(answer);
  answer.expectAgain(
    bytesOf(value)
      .slice(-againCount)
      .map((tokenId) => ({ tokenId })),
  );
  return { answer, cancels };
}

describe("an answer that goes on", () => {
  test("says nothing of the tokens that come again, and all of those behind them", () => {
    const { answer } = goesOnBehind("hello", 2);
    hearText(answer, "lo");
    expect(answer.hasPart).toBe(false);
    hearText(answer, " world");
    answer.hear(finishedBy("length", 11));
    expect(takeAll(answer)).toMatchObject([
      { kind: "text", text: " world" },
      { kind: "finished", counts: { outputTokens: 11 }, tokenIds: bytesOf(" world") },
    ]);
  });

  test("holds back what was held back", () => {
    const { answer } = goesOnBehind("hello wor", 1, { stop: ["world!"] });
    hearText(answer, "rld?");
    expect(takeAll(answer)).toEqual([text("world?", bytesOf("ld?"))]);
  });

  test("ends where a stop string had ended it, and is cancelled once", () => {
    const { answer, cancels } = goesOnBehind("hello", 1, { stop: ["llo"] });
    const before = cancels();
    hearText(answer, "o and more");
    expect(cancels()).toBe(before + 1);
    answer.hear(finishedBy("cancelled", 9));
    expect(takeAll(answer)).toMatchObject([{ reason: "stop", counts: { outputTokens: 5 } }]);
  });

  test("is broken off, before anything is told, when a token comes out otherwise", () => {
    const { answer, cancels } = goesOnBehind("hello", 2);
    hearText(answer, "lp me");
    expect(cancels()).toBe(1);
    answer.hear(finishedBy("cancelled", 8));
    expect(takeAll(answer)).toEqual([{ kind: "diverged" }]);
  });
});
