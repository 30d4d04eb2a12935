import { parseJsonObject } from "../src/protocol/json-object.ts";
import { drainRest } from "./drain-rest.ts";
import { GatewayError } from "./gateway-error.ts";
import { orThrow } from "./json-body.ts";

/** What may be read of a body in lines. */
export interface LineLimits {
  readonly bytesMax: number;
  /** Of one line. */
  readonly lineBytesMax: number;
}

/** One line of a body. */
export interface JsonLine {
  /** Counted from 1. */
  readonly number: number;
  readonly value: Readonly<Record<string, unknown>>;
}

/**
 * Reads a body line by line, each a JSON object, and never holds more of it than one line and one piece of
 * the network's. Empty lines count and are left out. Throws as `readJsonObject` does, and says which line.
 */
export async function* readJsonLines(
  body: ReadableStream<Uint8Array> | null,
  limits: LineLimits,
): AsyncGenerator<JsonLine> {
  if (body === null) return;
  const reader = body.getReader();
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let number = 0;
  let rest = "";
  let bytes = 0;
  let isAtEnd = false;
  try {
    while (!isAtEnd) {
      // oxlint-disable-next-line no-await-in-loop -- the next part comes after this one
      const { done, value } = await reader.read();
      isAtEnd = done;
      bytes += value?.length ?? 0;
      if (bytes > limits.bytesMax) throw tooLarge(`${limits.bytesMax} bytes`);
      const lines = (rest + decode(utf8, value)).split("\n");
      rest = isAtEnd ? "" : (lines.pop() ?? "");
      if (rest.length > limits.lineBytesMax) {
        throw tooLarge(`${limits.lineBytesMax} bytes a line, line ${number + lines.length + 1}`);
      }
      for (const line of lines) {
        number += 1;
        if (line.trim() !== "") yield { number, value: parseLine(line, number) };
      }
    }
  } finally {
    if (!isAtEnd) await drainRest(reader);
  }
}

function parseLine(line: string, number: number): JsonLine["value"] {
  const parsed = parseJsonObject(line);
  if (parsed.kind === "valid") return parsed.value;
  const { message = "it is not valid JSON" } = parsed.problem;
  return orThrow({
    kind: "invalid",
    problem: { ...parsed.problem, message: `Line ${number}: ${message}` },
  });
}

function decode(utf8: TextDecoder, bytes: Uint8Array | undefined): string {
  try {
    return utf8.decode(bytes, { stream: bytes !== undefined });
  } catch {
    throw new GatewayError({ code: "invalid_json", message: "The request body is not UTF-8" });
  }
}

function tooLarge(expected: string): GatewayError {
  const message = `The request body is too large: expected at most ${expected}`;
  return new GatewayError({ code: "request_too_large", message });
}
