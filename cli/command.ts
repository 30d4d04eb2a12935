/** Where a command writes: results on one channel, complaints on the other. */
export interface Terminal {
  /** Writes one line of the command's result, to stdout. */
  print(line: string): void;
  /** Writes one line about what went wrong, to stderr. */
  complain(line: string): void;
}

/** One word of the command line, such as `up`. */
export interface Command {
  readonly name: string;
  /** What follows the name in the first line of the help. */
  readonly synopsis: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** The help in full. */
  readonly help: string;
  /** Runs to the end and returns the exit code. */
  run(words: readonly string[], terminal: Terminal): Promise<number>;
}

/** What the shell learns from a command. */
export const EXIT_CODES = { ok: 0, failure: 1, wrongUse: 2 } as const;

/** The command was understood and could not be done; ends it with exit code 1. */
export class CommandFailure extends Error {
  override readonly name: string = "CommandFailure";
}

/** The command line itself is wrong; ends the command with exit code 2 and a hint to the help. */
export class WrongUse extends Error {
  override readonly name = "WrongUse";
}

/** Returns what to tell about something that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
