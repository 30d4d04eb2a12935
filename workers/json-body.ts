import { parseJsonObject } from "../src/protocol/json-object.ts";
import type { Validated } from "../src/protocol/validation.ts";
import { drainRest } from "./drain-rest.ts";
import { GatewayError } from "./gateway-error.ts";
import { readBody } from "./read-body.ts";

/** Room for any real name in a message. */
const ENCODING_LENGTH_MAX = 64;

/**
 * Reads a request's body as a JSON object. Throws `unsupported_content_encoding` for a compressed
 * one, `request_too_large` when it exceeds `bytesMax`, and `invalid_json` for anything that is no
 * object in UTF-8. Only for senders who have proved who they are: what is too large is still read.
 */
export async function readJsonObject(
  request: Request,
  bytesMax: number,
): Promise<Readonly<Record<string, unknown>>> {
  return orThrow(parseJsonObject(await readText(request, bytesMax)));
}

/** Reads a request's body as text, and throws likewise. */
export async function readText(request: Request, bytesMax: number): Promise<string> {
  refuseEncoded(request.headers);
  const bytes = await readBody(request.body, bytesMax, drainRest);
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

/** Unpacking would need a bound of its own, and prompts are small: clients send them as they are. */
function refuseEncoded(headers: Headers): void {
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (encoding === "" || encoding.toLowerCase() === "identity") return;
  const found = encoding.slice(0, ENCODING_LENGTH_MAX);
  throw new GatewayError({
    code: "unsupported_content_encoding",
    message: `The request body is compressed: expected content-encoding 'identity' or none, found '${found}'`,
  });
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new GatewayError({ code: "invalid_json", message: "The request body is not UTF-8" });
  }
}
