import { parseJsonObject } from "../src/protocol/json-object.ts";
import type { Validated } from "../src/protocol/validation.ts";
import { GatewayError } from "./gateway-error.ts";
import { readBody } from "./read-body.ts";

/**
 * Reads a request's body as a JSON object. Throws `request_too_large` as soon as it exceeds
 * `bytesMax`, and `invalid_json` for anything that is no object in UTF-8.
 */
export async function readJsonObject(
  request: Request,
  bytesMax: number,
): Promise<Readonly<Record<string, unknown>>> {
  return orThrow(parseJsonObject(await readText(request, bytesMax)));
}

/** Reads a request's body as text. Throws `request_too_large` and `invalid_json` likewise. */
export async function readText(request: Request, bytesMax: number): Promise<string> {
  const bytes = await readBody(request.body, bytesMax);
  if (bytes === undefined) {
    throw new GatewayError({
      code: "request_too_large",
      message: `The request body is too large: expected at most ${bytesMax} bytes`,
    });
  }
  return decodeUtf8(bytes);
}

/** Returns a validated value, or throws its problem as the answer to the request. */
export function orThrow<Value>(validated: Validated<Value>): Value {
  if (validated.kind === "invalid") throw new GatewayError(validated.problem);
  return validated.value;
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new GatewayError({ code: "invalid_json", message: "The request body is not UTF-8" });
  }
}
