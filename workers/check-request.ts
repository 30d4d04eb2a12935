import type { ChatRequestShape } from "../src/protocol/chat.ts";
import { messageText, requestedOutputTokensMax } from "../src/protocol/chat.ts";
import type { RequestId } from "../src/protocol/ids.ts";
import { shareOf } from "../src/tenants/share.ts";
import { authenticate } from "./auth.ts";
import { cacheSaltOf } from "./cache-salt.ts";
import type { CallRecord, CheckedRequest } from "./call.ts";
import { readChatBody, upstreamBodyOf } from "./chat-body.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { contextLengthProblem } from "./refusal.ts";
import type { Settings } from "./settings.ts";

/**
 * The longest tokens of vocabularies in use: runs of 128 spaces. Words are far shorter, so this
 * refuses only the plainly hopeless; everything else is for those who can count to say.
 */
const TOKEN_BYTES_MAX = 128;

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

  const { tenantId } = tenant;
  const { upstreamModel, contextTokens } = model;
  const promptBytes = promptBytesOf(chat);
  refuseOverlong(promptBytes, contextTokens);
  return {
    requestId,
    tenant,
    model,
    share: shareOf(tenant, model.poolId),
    upstreamBody: upstreamBodyOf(body, upstreamModel),
    promptBytes,
    outputTokensMax: requestedOutputTokensMax(chat),
    choiceCount,
    isStreamed: chat.stream === true,
    includeUsage: chat.stream_options?.include_usage === true,
    cacheSalt: cacheSaltOf({ tenantId, upstreamModel, clientSalt }, edge.settings),
  };
}

/** Refuses what no tokenizer could fit into the context, so that no pool is asked in vain. */
function refuseOverlong(promptBytes: number, contextTokens: number): void {
  const leastTokens = Math.floor(promptBytes / TOKEN_BYTES_MAX);
  if (leastTokens < contextTokens) return;
  throw new GatewayError(contextLengthProblem(contextTokens, `at least ${leastTokens}`));
}

function promptBytesOf({ messages }: ChatRequestShape): number {
  const encoder = new TextEncoder();
  return messages.reduce(
    (bytes, message) => bytes + encoder.encode(messageText(message)).length,
    0,
  );
}
