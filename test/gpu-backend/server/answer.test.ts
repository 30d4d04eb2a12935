import { describe, expect, test } from "vitest";
import { Detokenizer } from "../../../gpu-backend/engine/tokenizer/detokenizer.ts";
import { StopStrings } from "../../../gpu-backend/engine/tokenizer/stop-strings.ts";
import { TokenBytes } from "../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { Answer, type AnswerPart } from "../../../gpu-backend/server/answer.ts";
import { AnswerText } from "../../../gpu-backend/server/answer-text.ts";
import type { EngineEvent } from "../../../gpu-backend/thread-messages.ts";

/** Every byte is a token; 256 ends an answer. */
const END = 256;
const BYTES = new TokenBytes(
  new Map(Array.from({ length: 256 }, (_, byte) => [byte, Uint8Array.of(byte)])),
);

function anAnswer(stop: readonly string[] = []) {
  let cancels = 0;
  const text = new AnswerText({
    detokenizer: new Detokenizer(BYTES),
    stopStrings: new StopStrings(stop),
    endTokenIds: new Set([END]),
  });
  const answer = new Answer(text, () => (cancels += 1));
  return { answer, cancels: () => cancels };
}

function hearText(answer: Answer, text: string): void {
  for (const tokenId of new TextEncoder().encode(text)) {
    answer.hear({ kind: "token", id: "a", tokenId });
  }
}

function finished(reason: "stop" | "length" | "cancelled", outputTokens: number): EngineEvent {
  return { kind: "finished", id: "a", reason, promptTokens: 5, cachedTokens: 2, outputTokens };
}

/** Reads on until nothing more is there. */
async function readAll(answer: Answer): Promise<AnswerPart[]> {
  const parts: AnswerPart[] = [];
  for (;;) {
    const part = await answer.next(0);
    if (part === undefined) return parts;
    parts.push(part);
    if (part.kind !== "text") return parts;
  }
}

describe("Answer", () => {
  test("each token is told when it is read at once", async () => {
    const { answer } = anAnswer();
    const parts: (AnswerPart | undefined)[] = [];
    for (const letter of "abc") {
      const part = answer.next(10_000);
      hearText(answer, letter);
      parts.push(await part);
    }
    expect(parts).toEqual(["a", "b", "c"].map((text) => ({ kind: "text", text })));
  });

  test("what nobody read is one part, with its ending behind it", async () => {
    const { answer } = anAnswer();
    hearText(answer, "a long story");
    answer.hear(finished("length", 12));
    expect(await readAll(answer)).toEqual([
      { kind: "text", text: "a long story" },
      {
        kind: "finished",
        reason: "length",
        counts: { promptTokens: 5, cachedTokens: 2, outputTokens: 12 },
      },
    ]);
  });

  test("the first token is told though it has no text yet, the second not until it has", async () => {
    const { answer } = anAnswer();
    const [first = 0, second = 0] = new TextEncoder().encode("é");
    answer.hear({ kind: "token", id: "a", tokenId: first });
    expect(await answer.next(0)).toEqual({ kind: "text", text: "" });
    const waiting = answer.next(10_000);
    answer.hear({ kind: "token", id: "a", tokenId: second });
    expect(await waiting).toEqual({ kind: "text", text: "é" });
  });

  test("silence is told as nothing", async () => {
    const { answer } = anAnswer();
    answer.hear({ kind: "started", id: "a" });
    expect(await answer.next(1)).toBeUndefined();
  });

  test("the token that ends an answer is counted and has no text", async () => {
    const { answer } = anAnswer();
    hearText(answer, "ok");
    answer.hear({ kind: "token", id: "a", tokenId: END });
    answer.hear(finished("stop", 3));
    expect(await readAll(answer)).toMatchObject([
      { text: "ok" },
      { reason: "stop", counts: { outputTokens: 3 } },
    ]);
  });

  test("a stop string cancels once, and the token that completes it is the last one counted", async () => {
    const { answer, cancels } = anAnswer(["lo w"]);
    hearText(answer, "hello world");
    expect(cancels()).toBe(1);
    expect(answer.isComplete).toBe(true);
    answer.hear(finished("cancelled", 11));
    expect(await readAll(answer)).toMatchObject([
      { text: "hel" },
      { reason: "stop", counts: { outputTokens: 7 } },
    ]);
  });

  test("a stop string counts the same whether its answer had come to an end by then or not", async () => {
    const { answer } = anAnswer(["lo"]);
    hearText(answer, "hello");
    answer.hear(finished("length", 5));
    expect(await readAll(answer)).toMatchObject([
      { text: "hel" },
      { reason: "stop", counts: { outputTokens: 5 } },
    ]);
  });

  test("text held back for a stop string that never came is told at the end", async () => {
    const { answer } = anAnswer(["world peace"]);
    hearText(answer, "hello world");
    answer.hear(finished("length", 11));
    expect(await readAll(answer)).toMatchObject([{ text: "hello world" }, { reason: "length" }]);
  });

  test("half a character at the end is one replacement character", async () => {
    const { answer } = anAnswer();
    const [lead = 0] = new TextEncoder().encode("é");
    hearText(answer, "x");
    answer.hear({ kind: "token", id: "a", tokenId: lead });
    answer.hear(finished("length", 2));
    expect(await readAll(answer)).toMatchObject([{ text: "x\ufffd" }, { reason: "length" }]);
  });

  test("an answer that was cancelled from outside has no finish reason", async () => {
    const { answer } = anAnswer();
    hearText(answer, "hel");
    answer.hear(finished("cancelled", 3));
    expect(await readAll(answer)).toEqual([{ kind: "text", text: "hel" }, { kind: "cancelled" }]);
  });

  test("a failure comes after the text that was there before it", async () => {
    const { answer } = anAnswer();
    hearText(answer, "hel");
    answer.hear({ kind: "failed", id: "a", message: "poison" });
    expect(await readAll(answer)).toMatchObject([{ text: "hel" }, { kind: "failed" }]);
  });
});
