import { encodeBase64Url } from "./base64url.ts";
import type { KeyPrimitives } from "./fields.ts";
import { concatenate, field } from "./fields.ts";

const TAG = { answer: 31, path: 32, model: 33, request: 34 } as const;

/** More digits than a double keeps: such numbers may be other ones to whoever reads them exactly. */
const LONG_NUMBER = /\d{16}/;

/**
 * Whether a request allows but one answer: by a temperature of 0, which leaves nothing to chance, or by a
 * seed, which fixes it.
 */
export function isDeterministic(body: Readonly<Record<string, unknown>>): boolean {
  return body["temperature"] === 0 || typeof body["seed"] === "number";
}

/**
 * Writes a whole request so that equal ones are equal texts, whatever their spaces and the order of their
 * parameters, and whether or not they say what holds anyway; `undefined` where that cannot be told for sure. Within a parameter order counts: templates
 * show it.
 */
export function canonicalRequest(
  json: string,
  body: Readonly<Record<string, unknown>>,
): string | undefined {
  if (LONG_NUMBER.test(json)) return undefined;
  const names = Object.keys(body)
    .filter((name) => !saysNothing(name, body[name]))
    .toSorted();
  return JSON.stringify(names.map((name) => [name, body[name]]));
}

/** Whether a parameter is as if it were not there, at every server. */
function saysNothing(name: string, value: unknown): boolean {
  if (name === "stream") return value === false || value === null;
  return name === "n" && (value === 1 || value === null);
}

/** Derives the name under which the answer to a request is kept: its owner's alone, and no hash of it as such. */
export function deriveAnswerKey(
  namespace: Uint8Array,
  request: { readonly path: string; readonly modelRevision: string; readonly canonical: string },
  { hmacSha256, encodeUtf8 }: KeyPrimitives,
): string {
  const message = concatenate(
    field(TAG.answer, encodeUtf8("gw/answer/v1")),
    field(TAG.path, encodeUtf8(request.path)),
    field(TAG.model, encodeUtf8(request.modelRevision)),
    field(TAG.request, encodeUtf8(request.canonical)),
  );
  return encodeBase64Url(hmacSha256(namespace, message));
}
