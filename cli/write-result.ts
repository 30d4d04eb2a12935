import { writeFileSync } from "node:fs";
import { CommandFailure, messageOf } from "./command.ts";

/** Writes what a command found into a file. Throws a `CommandFailure` that names it. */
export function writeResult(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
}
