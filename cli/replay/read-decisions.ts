import { readFileSync } from "node:fs";
import type { WrittenDecisions } from "../../src/pool/decision-lines.ts";
import { decodeDecisions } from "../../src/pool/decision-lines.ts";
import { CommandFailure, messageOf } from "../command.ts";

/** A gateway's own limit is half of this. */
const LOG_BYTES_MAX = 64 * 1024 * 1024;

/** Reads a log of decisions from a file, or from stdin where the file is `-`. Throws a `CommandFailure`. */
export function readDecisions(file: string): WrittenDecisions {
  let text: string;
  try {
    text = readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
  if (text.length > LOG_BYTES_MAX) {
    throw new CommandFailure(
      `${file}: expected at most ${LOG_BYTES_MAX} characters, found ${text.length}`,
    );
  }
  try {
    const decisions = decodeDecisions(text);
    if (decisions.records.length > 0) return decisions;
  } catch (error) {
    throw new CommandFailure(`${file} is no log of decisions: ${messageOf(error)}`);
  }
  throw new CommandFailure(`${file} has no snapshot to begin from`);
}
