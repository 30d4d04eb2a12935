import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import { gunzipSync } from "node:zlib";
import { TraceError } from "./trace-error.ts";

const CHUNK_BYTES = 64 * 1024;
/** 8,000 block ids need 64 KiB; what is longer is not a trace. */
export const LINE_LENGTH_MAX = 1024 * 1024;
/** A compressed file is held whole: Node unpacks step by step only asynchronously. */
const UNPACKED_BYTES_MAX = 512 * 1024 * 1024;

/** Yields the lines of a text file without their ends, 64 KiB at a time; unpacks `.gz`. */
export function* linesOf(path: string): Generator<string> {
  let rest = "";
  let lineNumber = 1;
  for (const text of path.endsWith(".gz") ? unpackedTexts(path) : texts(path)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      yield line.endsWith("\r") ? line.slice(0, -1) : line;
      lineNumber += 1;
    }
    if (rest.length > LINE_LENGTH_MAX) {
      throw new TraceError(lineNumber, `at most ${LINE_LENGTH_MAX} characters`, "more");
    }
  }
  if (rest !== "") yield rest;
}

function* texts(path: string): Generator<string> {
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const decoder = new StringDecoder("utf8");
    for (let bytes = readSync(file, chunk); bytes > 0; bytes = readSync(file, chunk)) {
      yield decoder.write(chunk.subarray(0, bytes));
    }
    yield decoder.end();
  } finally {
    closeSync(file);
  }
}

function* unpackedTexts(path: string): Generator<string> {
  const bytes = gunzipSync(readFileSync(path), { maxOutputLength: UNPACKED_BYTES_MAX });
  const decoder = new StringDecoder("utf8");
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    yield decoder.write(bytes.subarray(at, at + CHUNK_BYTES));
  }
  yield decoder.end();
}
