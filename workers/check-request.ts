import { CLIENT_HEADERS } from "../src/protocol/headers.ts";
import type { RequestId } from "../src/protocol/ids.ts";
import type { Operation, RequestOutline } from "../src/protocol/operation.ts";
import type { LiveModel, TenantAccess } from "../src/tenants/live-configuration.ts";
import type { RequestPricing } from "../src/tenants/model-price.ts";
import { shareOf } from "../src/tenants/share.ts";
import { authenticate } from "./auth.ts";
import { cacheSaltOf } from "./cache-salt.ts";
import type { CallRecord, CheckedRequest } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { PromptSize } from "./prompt-size.ts";
import { promptSizeOf } from "./prompt-size.ts";
import { contextLengthProblem } from "./refusal.ts";
import { requestCounts } from "./request-counts.ts";
import { readRequestBody, upstreamBodyOf } from "./request-body.ts";
import type { Settings } from "./settings.ts";

/**
 * Checks a request from its key to its model, and derives what its way needs. Throws a
 * `GatewayError` for the first thing that is wrong with it.
 */
export async function checkRequest(
  request: Request,
  opened: {
    readonly operation: Operation;
    readonly requestId: RequestId;
    readonly record: CallRecord;
  },
  edge: { readonly env: Env; readonly settings: Settings },
): Promise<CheckedRequest> {
  const { operation, requestId, record } = opened;
  const nowMs = record.arrivedAtMs;
  const access = await authenticate(request.headers, { ...edge, nowMs, scope: "inference" });
  const { tenant, keyName } = access;
  record.tenantId = tenant.tenantId;
  refuseForeignClass(access);

  const uploadBeginsAtMs = Date.now();
  const body = await readRequestBody(request, operation);
  record.uploadMs = Date.now() - uploadBeginsAtMs;
  const { outline } = body;
  requestCounts.countUnknownParameters(outline.unknownParameterCount);

  const model = access.models.find(({ modelId }) => modelId === outline.modelId);
  if (model === undefined) throw new GatewayError({ code: "model_not_found", param: "model" });
  record.modelId = model.modelId;

  const { tenantId } = tenant;
  const { upstreamModel, contextTokens } = model;
  const prompts = outline.prompts.map(promptSizeOf);
  refuseOverlong(prompts, contextTokens, operation);
  return {
    operation,
    requestId,
    tenant,
    keyName,
    model,
    share: shareOf(tenant, model.poolId),
    upstreamBody: upstreamBodyOf(body, upstreamModel),
    promptCount: prompts.length,
    promptBytes: prompts.reduce((sum, { bytes }) => sum + bytes, 0),
    promptTokens: prompts.reduce((sum, { tokens }) => sum + tokens, 0),
    tokensMax: tokensMaxOf(outline, prompts, contextTokens),
    outputTokensMax: outline.outputTokensMax,
    pricing: pricingOf(outline, prompts, model),
    choiceCount: outline.choiceCount,
    isStreamed: outline.isStreamed,
    includeUsage: outline.streamOptions?.include_usage === true,
    isContinuable: tenant.continuation === true && outline.isStreamed && outline.choiceCount === 1,
    isPaced: request.headers.get(CLIENT_HEADERS.pace) === "1",
    includeMetrics: request.headers.get(CLIENT_HEADERS.includeMetrics) === "1",
    cacheSalt: cacheSaltOf(
      { tenantId, upstreamModel, clientSalt: outline.clientSalt },
      edge.settings,
    ),
  };
}

/** A key that is for certain classes is not for its tenant's others. */
function refuseForeignClass({ tenant, classNames }: TenantAccess): void {
  if (classNames === undefined || classNames.includes(tenant.className)) return;
  const message = `The API key may not use the class '${tenant.className}': expected one of ${classNames.join(", ")}`;
  throw new GatewayError({ code: "permission_denied", message });
}

/** A prompt and each of its answers fit the context together, whatever maximum is asked for. */
function tokensMaxOf(
  { choiceCount, outputTokensMax = Infinity }: RequestOutline,
  prompts: readonly PromptSize[],
  contextTokens: number,
): number {
  const answersPerPrompt = choiceCount / prompts.length;
  const bounds = prompts.map(({ tokens }) => {
    const outputMax = Math.min(outputTokensMax, Math.max(1, contextTokens - tokens));
    return tokens + Math.ceil(answersPerPrompt * outputMax);
  });
  return bounds.reduce((sum, bound) => sum + bound, 0);
}

/**
 * An output token may cost more than one of the prompt, so a prompt that is shorter than estimated must
 * not leave more room for output than was reserved.
 */
function pricingOf(
  { choiceCount, outputTokensMax = Infinity }: RequestOutline,
  prompts: readonly PromptSize[],
  { price, contextTokens }: LiveModel,
): RequestPricing | undefined {
  if (price === undefined) return undefined;
  const answersPerPrompt = choiceCount / prompts.length;
  const bounds = prompts.map(({ tokensMin }) =>
    Math.ceil(answersPerPrompt * Math.min(outputTokensMax, Math.max(1, contextTokens - tokensMin))),
  );
  return { price, outputTokensMax: bounds.reduce((sum, bound) => sum + bound, 0) };
}

/** Refuses what no tokenizer could fit into the context, so that no pool is asked in vain. */
function refuseOverlong(
  prompts: readonly PromptSize[],
  contextTokens: number,
  { promptParameter }: Operation,
): void {
  const tokensMin = prompts.reduce((max, prompt) => Math.max(max, prompt.tokensMin), 0);
  if (tokensMin < contextTokens) return;
  throw new GatewayError(
    contextLengthProblem({ contextTokens, length: `at least ${tokensMin}`, promptParameter }),
  );
}
