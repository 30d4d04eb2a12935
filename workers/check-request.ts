import type { ChatRequestShape } from "../src/protocol/chat.ts";
import { messageText, requestedOutputTokensMax } from "../src/protocol/chat.ts";
import type { RequestId } from "../src/protocol/ids.ts";
import { authenticate } from "./auth.ts";
import { cacheSaltOf } from "./cache-salt.ts";
import type { CallRecord, CheckedRequest } from "./call.ts";
import { startedAtMs } from "./call.ts";
import { readChatBody, upstreamBodyOf } from "./chat-body.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { Settings } from "./settings.ts";

/** A first token that is not there by then will not come; it also stands in for a TTFT target. */
export const FIRST_TOKEN_MS_MAX = 60_000;

/**
 * Checks a chat request from its key to its model, and derives what its way needs. Throws a
 * `GatewayError` for the first thing that is wrong with it.
 */
export async function checkRequest(
  request: Request,
  opened: { readonly requestId: RequestId; readonly record: CallRecord },
  edge: { readonly env: Env; readonly settings: Settings },
): Promise<CheckedRequest> {
  const { requestId, record } = opened;
  const access = await authenticate(request.headers, edge.env, edge.settings, record.arrivedAtMs);
  const { tenant } = access;
  record.tenantId = tenant.tenantId;

  const uploadBeginsAtMs = Date.now();
  const body = await readChatBody(request);
  record.uploadMs = Date.now() - uploadBeginsAtMs;
  const { chat, choiceCount, clientSalt } = body;

  const model = access.models.find(({ modelId }) => modelId === chat.model);
  if (model === undefined) throw new GatewayError({ code: "model_not_found", param: "model" });
  record.modelId = model.modelId;

  const ttftMs = Math.min(tenant.targets.ttft?.limitMs ?? FIRST_TOKEN_MS_MAX, FIRST_TOKEN_MS_MAX);
  const { tenantId } = tenant;
  const { upstreamModel } = model;
  return {
    requestId,
    tenant,
    model,
    upstreamBody: upstreamBodyOf(body, upstreamModel),
    promptBytes: promptBytesOf(chat),
    outputTokensMax: requestedOutputTokensMax(chat),
    choiceCount,
    isStreamed: chat.stream === true,
    includeUsage: chat.stream_options?.include_usage === true,
    cacheSalt: cacheSaltOf({ tenantId, upstreamModel, clientSalt }, edge.settings),
    firstTokenDueAtMs: startedAtMs(record) + ttftMs,
  };
}

function promptBytesOf({ messages }: ChatRequestShape): number {
  const encoder = new TextEncoder();
  return messages.reduce(
    (bytes, message) => bytes + encoder.encode(messageText(message)).length,
    0,
  );
}
