import type { TokenLogprob } from "../engine/generate-request.ts";
import { type BrokenPart, isBroken } from "./answer.ts";
import type { CollectedChoice } from "./answer-format.ts";
import type { AnswerGroup } from "./answer-group.ts";

/** How long one wait lasts where nobody needs to hear that nothing came. */
const PATIENCE_MS = 60_000;

/** Reads all choices to their end, or to the first part that is broken. */
export async function readWhole(
  answers: AnswerGroup,
  choiceCount: number,
): Promise<{ readonly kind: "whole"; readonly choices: readonly CollectedChoice[] } | BrokenPart> {
  const choices = Array.from({ length: choiceCount }, () => new ChoiceCollector());
  while (answers.endings === undefined) {
    const read = await answers.next(PATIENCE_MS);
    if (read === undefined) continue;
    if (isBroken(read.part)) return read.part;
    const choice = choices[read.choice];
    switch (read.part.kind) {
      case "prompt":
        choice?.promptLogprobs.push(...read.part.logprobs);
        break;
      case "text":
        if (choice !== undefined) choice.text += read.part.text;
        choice?.logprobs.push(...read.part.logprobs);
        break;
      case "finished":
        if (choice !== undefined) choice.reason = read.part.reason;
        break;
    }
  }
  return { kind: "whole", choices };
}

class ChoiceCollector implements CollectedChoice {
  text = "";
  reason: CollectedChoice["reason"] = "stop";
  readonly logprobs: TokenLogprob[] = [];
  readonly promptLogprobs: (TokenLogprob | undefined)[] = [];
}
