import { CONTINUATION_MEMBER } from "../src/protocol/continuation.ts";
import { parseJsonObject } from "../src/protocol/json-object.ts";
import { editMembers } from "../src/protocol/json-text.ts";
import type { Operation, RequestOutline } from "../src/protocol/operation.ts";
import { orThrow, readText } from "./json-body.ts";

/** Larger than the text of any context that models have today. */
const BODY_BYTES_MAX = 4_194_304;

/** A request's body of the right shape: what it says, and the text that it was read from. */
export interface RequestBody {
  readonly json: string;
  /** The same, parsed. */
  readonly members: Readonly<Record<string, unknown>>;
  readonly outline: RequestOutline;
}

/** Reads and checks a request's body. Throws `request_too_large`, or what is wrong with it. */
export async function readRequestBody(
  request: Request,
  operation: Operation,
): Promise<RequestBody> {
  const json = await readText(request, BODY_BYTES_MAX);
  const members = orThrow(parseJsonObject(json));
  return { json, members, outline: orThrow(operation.outline(members)) };
}

/**
 * Writes the body for a replica: the client's own text, but for what the gateway decides. The salt
 * travels in a header, derived; a priority is the tenant's to have and not the client's to ask for, nor
 * is it to make up what an answer begins with;
 * and of a stream the gateway always wants the counts. Strict servers refuse `stream_options` in
 * any other request.
 */
export function upstreamBodyOf({ json, outline }: RequestBody, upstreamModel: string): string {
  const streamOptions = { ...outline.streamOptions, include_usage: true };
  return editMembers(json, {
    model: JSON.stringify(upstreamModel),
    [CONTINUATION_MEMBER]: undefined,
    cache_salt: undefined,
    priority: undefined,
    stream_options: outline.isStreamed ? JSON.stringify(streamOptions) : undefined,
  });
}
