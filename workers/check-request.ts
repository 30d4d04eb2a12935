import { canonicalRequest, isDeterministic } from "../src/prompt-cache/answer-key.ts";
import { CLIENT_HEADERS } from "../src/protocol/headers.ts";
import type { RequestId } from "../src/protocol/ids.ts";
import type { Operation, RequestOutline } from "../src/protocol/operation.ts";
import type { LiveModel, LiveTenant } from "../src/tenants/live-configuration.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import { isNamed } from "../src/tenants/live-configuration.ts";
import { authenticate } from "./auth.ts";
import type { CallRecord, CheckedRequest } from "./call.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { aimedAt } from "./call-targets.ts";
import { promiseOf } from "./promise-of.ts";
import type { PromptSize } from "./prompt-size.ts";
import { promptSizeOf, tokensMinOf } from "./prompt-size.ts";
import { contextLengthProblem } from "./refusal.ts";
import { requestCounts } from "./request-counts.ts";
import type { RequestBody } from "./request-body.ts";
import { readRequestBody } from "./request-body.ts";
import type { Settings } from "./settings.ts";

/** By these an answer comes to say, or to be, what a later one would not. */
const UNREPEATABLE = [
  CLIENT_HEADERS.includeMetrics,
  CLIENT_HEADERS.pace,
  CLIENT_HEADERS.className,
] as const;

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

  const uploadBeginsAtMs = Date.now();
  const body = await readRequestBody(request, operation);
  record.uploadMs = Date.now() - uploadBeginsAtMs;
  const { outline } = body;
  requestCounts.countUnknownParameters(outline.unknownParameterCount);

  const model = access.models.find((candidate) => isNamed(candidate, outline.modelId));
  if (model === undefined) throw new GatewayError({ code: "model_not_found", param: "model" });
  record.modelId = model.modelId;
  const promise = promiseOf(request.headers, outline, tenant);
  refuseForeignClass(access, promise.className);

  const prompts = outline.prompts.map(promptSizeOf);
  refuseOverlong(prompts, model.contextTokens, operation);
  const models = [model, ...fallbacksFor(model, access, outline, prompts)] as const;
  return {
    operation,
    requestId,
    tenant,
    keyName,
    promise,
    ...aimedAt(models, {
      body,
      prompts,
      access,
      answer: answerOf(body, operation, request.headers, tenant),
      settings: edge.settings,
    }),
    isOneText: outline.prompts.length === 1 && outline.prompts[0]?.kind === "text",
    promptBytes: prompts.reduce((sum, { bytes }) => sum + bytes, 0),
    promptTokens: prompts.reduce((sum, { tokens }) => sum + tokens, 0),
    choiceCount: outline.choiceCount,
    isStreamed: outline.isStreamed,
    includeUsage: outline.streamOptions?.include_usage === true,
    isContinuable: tenant.continuation === true && outline.isStreamed && outline.choiceCount === 1,
    isPaced: request.headers.get(CLIENT_HEADERS.pace) === "1",
    includeMetrics: request.headers.get(CLIENT_HEADERS.includeMetrics) === "1",
  };
}

/**
 * Names a request that allows but one answer, where its tenant wants it given again. What tells of time, of
 * its pace or of what was promised is none to be given again.
 */
function answerOf(
  { json, members }: RequestBody,
  { path, name }: Operation,
  headers: Headers,
  { cache }: LiveTenant,
): { readonly path: string; readonly canonical: string } | undefined {
  if (cache?.answers !== true || name === "embeddings") return undefined;
  if (UNREPEATABLE.some((header) => headers.has(header)) || !isDeterministic(members))
    return undefined;
  const canonical = canonicalRequest(json, members);
  return canonical === undefined ? undefined : { path, canonical };
}

/** A key that is for certain classes is not for its tenant's others. */
function refuseForeignClass({ classNames }: TenantAccess, className: string): void {
  if (classNames === undefined || classNames.includes(className)) return;
  throw new GatewayError({
    code: "permission_denied",
    message: `The API key may not use the class '${className}': expected one of ${classNames.join(", ")}`,
  });
}

/** The models that a request may be sent to instead: not in another model's tokens, nor what it cannot hold. */
function fallbacksFor(
  asked: LiveModel,
  { fallbackModels }: TenantAccess,
  outline: RequestOutline,
  prompts: readonly PromptSize[],
): LiveModel[] {
  const isText = outline.prompts.every(({ kind }) => kind === "text");
  return fallbackModels.filter(
    ({ modelId, contextTokens }) =>
      isText && modelId !== asked.modelId && tokensMinOf(prompts) < contextTokens,
  );
}

/** Refuses what no tokenizer could fit into the context, so that no pool is asked in vain. */
function refuseOverlong(
  prompts: readonly PromptSize[],
  contextTokens: number,
  { promptParameter }: Operation,
): void {
  const tokensMin = tokensMinOf(prompts);
  if (tokensMin < contextTokens) return;
  throw new GatewayError(
    contextLengthProblem({ contextTokens, length: `at least ${tokensMin}`, promptParameter }),
  );
}
