import { describe, expect, test } from "vitest";
import { pollUntil } from "../../../cli/stack/poll.ts";

const NEVER = new Promise<boolean>(() => undefined);
const forAWhile = (): AbortSignal => new AbortController().signal;

describe("pollUntil()", () => {
  test("asks until the answer is yes", async () => {
    const answers = [false, false, true, false];
    await pollUntil(async () => answers.shift() === true, forAWhile());
    expect(answers).toEqual([false]);
  });

  test("ends with its signal, also while a question is never answered", async () => {
    const controller = new AbortController();
    const waiting = pollUntil(() => NEVER, controller.signal);
    controller.abort(new Error("Ctrl-C"));
    await expect(waiting).rejects.toThrow("Ctrl-C");
    await expect(pollUntil(() => NEVER, controller.signal)).rejects.toThrow("Ctrl-C");
  });

  test("asks anew what is not answered", async () => {
    let questions = 0;
    const ask = (): Promise<boolean> => {
      questions += 1;
      return questions < 3 ? NEVER : Promise.resolve(true);
    };
    await pollUntil(ask, forAWhile(), 5);
    expect(questions).toBe(3);
  });

  test("passes on what goes wrong, and is not troubled by what goes wrong later", async () => {
    const failing = pollUntil(() => Promise.reject(new Error("broken")), forAWhile());
    await expect(failing).rejects.toThrow("broken");
    let questions = 0;
    const ask = async (): Promise<boolean> => {
      questions += 1;
      if (questions > 1) return true;
      await new Promise((resolve) => setTimeout(resolve, 20));
      throw new Error("too late to matter");
    };
    await pollUntil(ask, forAWhile(), 5);
    expect(questions).toBe(2);
  });
});
