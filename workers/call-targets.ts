import type { ModelId } from "../src/protocol/ids.ts";
import type { RequestOutline } from "../src/protocol/operation.ts";
import type { LiveModel } from "../src/tenants/live-configuration.ts";
import type { TenantAccess } from "../src/tenants/tenant-access.ts";
import type { RequestPricing } from "../src/tenants/model-price.ts";
import { costMaxOf } from "../src/tenants/model-price.ts";
import type { OverloadLadder } from "../src/tenants/overload-step.ts";
import { ladderBehind, ladderWithin } from "../src/tenants/overload-step.ts";
import { shareOf } from "../src/tenants/share.ts";
import type { CallTarget, CheckedRequest } from "./call.ts";
import type { PromptSize } from "./prompt-size.ts";
import { requestKeysOf } from "./request-keys.ts";
import type { RequestBody } from "./request-body.ts";
import { upstreamBodyOf } from "./request-body.ts";
import type { Settings } from "./settings.ts";

/** What is the same wherever a request is sent. */
interface TargetedRequest {
  readonly body: RequestBody;
  readonly prompts: readonly PromptSize[];
  readonly access: TenantAccess;
  /** What names its answer, where that may be given again. */
  readonly answer: { readonly path: string; readonly canonical: string } | undefined;
  readonly settings: Settings;
}

/** Where a request is sent, and what is reserved for it there. */
type Aim = Pick<CheckedRequest, "target" | "fallbacks" | "tokensMax" | "pricing">;

/**
 * Prepares a request for the model that it asks for, the first one; for those that may be asked instead only
 * what is reserved, since mostly none is.
 */
export function aimedAt(
  models: readonly [LiveModel, ...LiveModel[]],
  request: TargetedRequest,
): Aim {
  const [asked, ...others] = models;
  const { prompts, access, body } = request;
  const { outline } = body;
  const isThere = (modelId: ModelId): boolean => others.some((model) => model.modelId === modelId);
  const { overload } = access.tenant;
  const ladder = overload && ladderWithin(overload, isThere);
  const bounds = models.map((model) => ({
    tokensMax: tokensMaxOf(outline, prompts, model.contextTokens),
    pricing: pricingOf(outline, prompts, model),
  }));
  return {
    target: targetOf(asked, ladder, request),
    fallbacks: others.map((model) => ({
      modelId: model.modelId,
      // Another model's answer is not the one that was asked for.
      prepare: () =>
        targetOf(model, ladderBehind(ladder ?? [], model.modelId), {
          ...request,
          answer: undefined,
        }),
    })),
    tokensMax: bounds.reduce((max, { tokensMax }) => Math.max(max, tokensMax), 0),
    pricing: dearestOf(
      bounds.map(({ pricing }) => pricing),
      prompts,
    ),
  };
}

function targetOf(
  model: LiveModel,
  overload: OverloadLadder | undefined,
  { body, prompts, access, answer, settings }: TargetedRequest,
): CallTarget {
  const { outline } = body;
  const { upstreamModel } = model;
  const { caching } = outline;
  return {
    model,
    share: shareOf(access.tenant, model.poolId),
    upstreamBody: upstreamBodyOf(body, upstreamModel),
    outputTokensMax: outline.outputTokensMax,
    pricing: pricingOf(outline, prompts, model),
    keys: requestKeysOf({ upstreamModel, caching, ...(answer && { answer }) }, access, settings),
    overload,
  };
}

/** The pricing under which a request can cost most: so much is reserved, whichever model answers. */
function dearestOf(
  pricings: readonly (RequestPricing | undefined)[],
  prompts: readonly PromptSize[],
): RequestPricing | undefined {
  const promptTokens = prompts.reduce((sum, { tokens }) => sum + tokens, 0);
  return pricings.reduce((dearest, pricing) =>
    costMaxOf(promptTokens, pricing) > costMaxOf(promptTokens, dearest) ? pricing : dearest,
  );
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
