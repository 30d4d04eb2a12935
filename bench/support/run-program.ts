import type * as z from "zod";
import { CommandFailure, EXIT_CODES, WrongUse } from "../../cli/command.ts";
import { parseWords, toHelpLines } from "../../cli/flags.ts";
import { ModelError } from "../../gpu-backend/engine/model/model-error.ts";

/** What a program of this folder is: its flags, what it says of itself, and what it prints. */
interface Program<Flags extends z.ZodObject> {
  readonly flags: Flags;
  /** The help; the flags are listed below it. */
  readonly help: string;
  readonly run: (flags: z.output<Flags>) => string | Promise<string>;
}

/**
 * Runs a program by the command line of this very invocation and prints what it returns. Leaves Node the
 * exit code: 0 done, 1 not done, 2 wrong use. Whatever it throws that is none of these is thrown on.
 */
export async function runProgram<Flags extends z.ZodObject>({
  flags,
  help,
  run,
}: Program<Flags>): Promise<void> {
  const words = process.argv.slice(2);
  if (words.includes("--help")) {
    console.log(`${help}\n\n${toHelpLines(flags)}`);
    return;
  }
  try {
    console.log(await run(parseWords(words, flags, 0).values));
  } catch (error) {
    const isWrongUse = error instanceof WrongUse;
    if (!isWrongUse && !(error instanceof CommandFailure || error instanceof ModelError))
      throw error;
    console.error(error.message);
    process.exitCode = isWrongUse ? EXIT_CODES.wrongUse : EXIT_CODES.failure;
  }
}
