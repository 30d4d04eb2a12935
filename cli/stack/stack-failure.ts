import { CommandFailure } from "../command.ts";

/** A part of the stack is lost for good: a sentence that names it, and the last lines it wrote. */
export class StackFailure extends CommandFailure {
  override readonly name = "StackFailure";
  readonly logTail: readonly string[];

  constructor(sentence: string, logTail: readonly string[]) {
    super(sentence);
    this.logTail = logTail;
  }
}
