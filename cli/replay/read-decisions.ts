import { readFileSync } from "node:fs";
import type { WrittenDecisions } from "../../src/pool/decision-lines.ts";
import { decodeState } from "../../src/base/state-text.ts";
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
    throw new CommandFailure(
      `${file} is no log of decisions: ${faultOf(text) ?? messageOf(error)}`,
    );
  }
  throw new CommandFailure(`${file} has no snapshot to begin from`);
}

/** Finds what is wrong with a text that could not be read, line by line; undefined: nothing that is known here. */
function faultOf(text: string): string | undefined {
  if (text.trim() === "") return "it is empty";
  const lines = text.split("\n");
  let hasHead = false;
  let hasSnapshot = false;
  for (const [index, line] of lines.entries()) {
    if (line === "") continue;
    const at = `line ${index + 1}`;
    let read: unknown;
    try {
      read = decodeState(line);
    } catch (error) {
      // Every line has its break, the last one too.
      const isCut = hasHead && index === lines.length - 1;
      return isCut
        ? `it ends in the midst of ${at}, as after an interrupted download: get it again`
        : `${at}: ${messageOf(error)}`;
    }
    const kind = kindOf(read);
    if (kind === undefined) return `${at}: expected a line of a log, found other JSON`;
    hasHead ||= kind === "log" && hasEpoch(read);
    hasSnapshot ||= kind === "snapshot";
    if (!hasHead) return `${at}: expected the head of a log with its epoch, found "${kind}"`;
    if (kind === "call" && !hasSnapshot) return `${at}: expected a snapshot before the first call`;
  }
  return undefined;
}

const hasEpoch = (line: unknown) => typeof Object(line).epoch === "string";

function kindOf(line: unknown): string | undefined {
  if (typeof line !== "object" || line === null || !("kind" in line)) return undefined;
  return typeof line.kind === "string" ? line.kind : undefined;
}
