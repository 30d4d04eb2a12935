import { describe, expect, test } from "vitest";
import { AnswerGroup, type ChoicePart } from "../../../gpu-backend/server/answer-group.ts";
import { aByteAnswer, finishedBy, tokensOf } from "../../support/byte-answers.ts";

function aGroup(choices: number): AnswerGroup {
  return new AnswerGroup(Array.from({ length: choices }, () => aByteAnswer().answer));
}

function hearText(group: AnswerGroup, choice: number, text: string): void {
  for (const event of tokensOf(text)) group.hear(choice, event);
}

function describePart({ choice, part }: ChoicePart): string {
  return `${choice} ${part.kind === "text" ? part.text : part.kind}`;
}

/** Reads on until nothing more is there. */
async function readAll(group: AnswerGroup): Promise<string[]> {
  const read: string[] = [];
  for (;;) {
    const next = await group.next(0);
    if (next === undefined || read.length > 20) return read;
    read.push(describePart(next));
    if (next.part.kind === "refused" || next.part.kind === "failed") return read;
  }
}

describe("AnswerGroup", () => {
  test("a reader that waits is woken by the first token of any choice", async () => {
    const group = aGroup(3);
    const waiting = group.next(10_000);
    hearText(group, 2, "x");
    expect(await waiting).toMatchObject({ choice: 2, part: { text: "x" } });
  });

  test("silence is told as nothing", async () => {
    const group = aGroup(1);
    group.hear(0, { kind: "started", id: "a", cachedTokens: 0 });
    expect(await group.next(1)).toBeUndefined();
  });

  test("choices take turns, each merged while it waits for its own", async () => {
    const group = aGroup(2);
    hearText(group, 0, "ab");
    hearText(group, 1, "xy");
    expect(await group.next(0)).toMatchObject({ choice: 0, part: { text: "ab" } });
    hearText(group, 0, "c");
    expect(await readAll(group)).toEqual(["1 xy", "0 c"]);
  });

  test("a finished choice says nothing more, and the others go on", async () => {
    const group = aGroup(2);
    hearText(group, 0, "a");
    group.hear(0, finishedBy("stop", 1));
    expect(await readAll(group)).toEqual(["0 a", "0 finished"]);
    expect(group.endings).toBeUndefined();
    hearText(group, 1, "x");
    group.hear(1, finishedBy("length", 1));
    expect(await readAll(group)).toEqual(["1 x", "1 finished"]);
    expect(group.endings?.map((ending) => ending.reason)).toEqual(["stop", "length"]);
  });

  test("the first that breaks is the end, not those that it took with it", async () => {
    const group = aGroup(3);
    hearText(group, 0, "a");
    group.hear(2, { kind: "refused", id: "a", reason: "queue-full" });
    group.hear(0, finishedBy("cancelled", 1));
    group.hear(1, finishedBy("cancelled", 0));
    expect(await readAll(group)).toEqual(["0 a", "2 refused"]);
  });
});
