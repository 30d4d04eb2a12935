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
 * travels in a header, derived; a priority and a tier are the tenant's to have, nor is the client to make up
 * what an answer begins with;
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
    service_tier: undefined,
    stream_options: outline.isStreamed ? JSON.stringify(streamOptions) : undefined,
  });
}

/** The members that limit an output, of which the first one wins. */
const LIMITS = ["max_completion_tokens", "max_tokens"] as const;

/** Writes a body with a lower limit of the output, under the name that the client uses for it. */
export function clampedBody(json: string, outputTokensMax: number): string {
  const body = orThrow(parseJsonObject(json));
  const isThere = (name: string): boolean => (body[name] ?? undefined) !== undefined;
  const used = LIMITS.filter(isThere);
  const names = used.length > 0 ? used : ["max_tokens"];
  // A minimum above the maximum would be refused as the client's mistake.
  const hasMinimum = Number(body["min_tokens"]) > outputTokensMax;
  return editMembers(json, {
    ...Object.fromEntries(names.map((name) => [name, String(outputTokensMax)])),
    ...(hasMinimum && { min_tokens: String(outputTokensMax) }),
  });
}
