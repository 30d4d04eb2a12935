import * as z from "zod";
import { ChatRequestShape } from "../src/protocol/chat.ts";
import { parseJsonObject } from "../src/protocol/json-object.ts";
import { editMembers } from "../src/protocol/json-text.ts";
import { integerWithin, optional } from "../src/protocol/parameter-schemas.ts";
import { validate } from "../src/protocol/validation.ts";
import { orThrow, readText } from "./json-body.ts";

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
  const json = await readText(request, BODY_BYTES_MAX);
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
