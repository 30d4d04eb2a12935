import * as z from "zod";
import { ChatRequestShape } from "../src/protocol/chat.ts";
import { parseJsonObject } from "../src/protocol/json-object.ts";
import { editMembers } from "../src/protocol/json-text.ts";
import { integerWithin, optional } from "../src/protocol/parameter-schemas.ts";
import type { Validated } from "../src/protocol/validation.ts";
import { validate } from "../src/protocol/validation.ts";
import { GatewayError } from "./gateway-error.ts";
import { readBody } from "./read-body.ts";

/** Larger than the text of any context that models have today. */
const BODY_BYTES_MAX = 4_194_304;
const CHOICES_MAX = 128;

/** Parameters that mean something to the gateway itself, beside the shape of a chat. */
const GatewayParameters = z.object({
  n: optional(integerWithin(1, CHOICES_MAX)),
  cache_salt: optional(z.string()),
});

/** A chat request of the right shape, with the text that it was read from. */
export interface ChatBody {
  readonly json: string;
  readonly chat: ChatRequestShape;
  readonly choiceCount: number;
  /** The client's own narrowing of its cache. */
  readonly clientSalt: string | undefined;
}

/** Reads and checks a request's body. Throws `request_too_large`, or what is wrong with it. */
export async function readChatBody(request: Request): Promise<ChatBody> {
  const json = await readText(request);
  const body = orThrow(parseJsonObject(json));
  const chat = orThrow(validate(ChatRequestShape, body));
  const { n: choiceCount = 1, cache_salt: clientSalt } = orThrow(validate(GatewayParameters, body));
  return { json, chat, choiceCount, clientSalt };
}

/**
 * Writes the body for a replica: the client's own text, but for what the gateway decides. The salt
 * travels in a header, derived; a priority is the tenant's to have and not the client's to ask for;
 * and of a stream the gateway always wants the counts. Strict servers refuse `stream_options` in
 * any other request.
 */
export function upstreamBodyOf({ json, chat }: ChatBody, upstreamModel: string): string {
  const streamOptions = { ...chat.stream_options, include_usage: true };
  return editMembers(json, {
    model: JSON.stringify(upstreamModel),
    cache_salt: undefined,
    priority: undefined,
    stream_options: chat.stream === true ? JSON.stringify(streamOptions) : undefined,
  });
}

async function readText(request: Request): Promise<string> {
  const tooLarge = new GatewayError({
    code: "request_too_large",
    message: `Expected a request body of at most ${BODY_BYTES_MAX} bytes`,
  });
  if (Number(request.headers.get("content-length") ?? 0) > BODY_BYTES_MAX) throw tooLarge;
  const bytes = await readBody(request.body, BODY_BYTES_MAX);
  if (bytes === undefined) throw tooLarge;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new GatewayError({
      code: "invalid_json",
      message: "The request body is not valid UTF-8",
    });
  }
}

function orThrow<Value>(validated: Validated<Value>): Value {
  if (validated.kind === "invalid") throw new GatewayError(validated.problem);
  return validated.value;
}
