import { accessSync, constants, existsSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { CommandFailure, messageOf } from "./command.ts";

/** Refuses a file that cannot be written, before what is to be written takes its time. Throws a `CommandFailure`. */
export function requireWritable(file: string): void {
  if (existsSync(file) && statSync(file).isDirectory()) {
    throw new CommandFailure(`Expected a file to write, found the folder ${file}`);
  }
  try {
    // With the dot a folder that is a file is told apart.
    accessSync(existsSync(file) ? file : `${dirname(file)}/.`, constants.W_OK);
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
}

/** Writes a file that somebody asked for. Throws a `CommandFailure` that names it. */
export function writeResult(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
}
