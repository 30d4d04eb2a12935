import { randomBytes, randomInt } from "node:crypto";
import type { GenerationParameters } from "../../src/protocol/generation-parameters.ts";
import type { AnswerIdentity } from "../../src/protocol/usage.ts";
import type { GenerateRequest, Sampling } from "../engine/generate-request.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AppContext, ServedModel } from "./app-context.ts";
import type { Operation } from "./gen-ai-metrics.ts";
import { ProblemError } from "./problem-error.ts";
import type { Arrival } from "./read-request.ts";

/** A request for text as far as the engine's door: what it is to compute, and how to write it. */
export interface Generation {
  readonly model: ServedModel;
  readonly identity: AnswerIdentity;
  /** One a choice; those of one prompt stand together. */
  readonly requests: readonly GenerateRequest[];
  readonly choicesPerPrompt: number;
  readonly parameters: GenerationParameters;
  readonly operation: Operation;
  /** The parameter that the prompts came in. */
  readonly promptParam: string;
  readonly format: AnswerFormat;
  /** Whether another engine could go on with it, streamed: one choice, of which nothing but output is told. */
  readonly mayBeContinued: boolean;
}

/** One prompt, and what its route alone knows to ask of it. */
export interface PromptRequest
  extends
    Pick<GenerateRequest, "promptTokens">,
    Partial<Pick<GenerateRequest, "logprobsTop" | "promptLogprobsTop" | "constraint">> {
  /** The client's limit; undefined for what the context leaves. */
  readonly outputTokensMax: number | undefined;
}

/** The namespace of requests without a salt, where the engine takes such. */
const LOCAL_SALT = "";
/** Whose blocks they are where no gateway says it. */
const LOCAL_TENANT = "";
/** As many as `randomInt` can tell apart. */
const RANDOM_SEEDS = 2 ** 48 - 1;
/** Doubles as large as a seed may be lie so far apart. */
const LARGE_SEED_STEP = 2048;
/** All choices of one request, whatever its prompts: each is a request to the engine. */
const ALL_CHOICES_MAX = 128;

/** Names one answer, and says what all its parts share. */
export function newIdentity(model: ServedModel, prefix: "chatcmpl" | "cmpl"): AnswerIdentity {
  return {
    id: `${prefix}-${randomBytes(16).toString("hex")}`,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    model: model.name,
    systemFingerprint: model.systemFingerprint,
  };
}

/**
 * What a request owes to whoever sent it: its KV namespace, its share, its urgency, its deadlines.
 * The gateway's word counts before the client's. Throws if a salt is required and there is none.
 */
export function requestTerms(
  context: Pick<AppContext, "requireSalt">,
  { headers, arrivedAtMs }: Pick<Arrival, "headers" | "arrivedAtMs">,
  asked: { readonly cache_salt?: string | undefined; readonly priority?: number },
): Pick<
  GenerateRequest,
  "cacheSalt" | "tenant" | "priority" | "firstTokenDeadlineAtMs" | "tbtTargetMs"
> {
  if (headers.cacheSalt === undefined && context.requireSalt) {
    throw new ProblemError({ code: "missing_cache_salt" });
  }
  const { firstTokenBudgetMs, tbtTargetMs } = headers;
  return {
    cacheSalt: headers.cacheSalt ?? asked.cache_salt ?? LOCAL_SALT,
    tenant: headers.tenant ?? LOCAL_TENANT,
    priority: headers.priority ?? asked.priority ?? 0,
    ...(firstTokenBudgetMs !== undefined && {
      firstTokenDeadlineAtMs: arrivedAtMs + firstTokenBudgetMs,
    }),
    ...(tbtTargetMs !== undefined && { tbtTargetMs }),
  };
}

/**
 * Returns the engine's requests for `n` choices of each prompt. Choice `i` draws with `seed + i`,
 * so that it is what a request for one choice with that seed would be. Throws the problem of
 * what only the model can tell to be wrong.
 */
export function generateRequests(
  context: AppContext,
  model: ServedModel,
  asked: {
    readonly id: string;
    readonly parameters: GenerationParameters;
    readonly prompts: readonly PromptRequest[];
    readonly arrival: Arrival;
  },
): readonly GenerateRequest[] {
  const { id, parameters, prompts, arrival } = asked;
  checkTokenIds(parameters, model);
  const count = parameters.n * prompts.length;
  if (count > ALL_CHOICES_MAX) {
    const message = `Expected 'n' to give at most ${ALL_CHOICES_MAX} choices in all, found ${count}`;
    throw new ProblemError({ code: "integer_above_max_value", message, param: "n" });
  }
  const endTokenIds = parameters.ignore_eos ? [] : model.endTokenIds;
  const shared = {
    ...requestTerms(context, arrival, parameters),
    outputTokensMin: parameters.min_tokens,
    stopTokenIds: [...endTokenIds, ...parameters.stop_token_ids],
  };
  const { promptChain, kvPeer } = arrival.headers;
  // Of several prompts nobody could say which one it is of.
  const named = promptChain !== undefined && prompts.length === 1 && { promptChain };
  for (const { promptTokens } of prompts) requireRoom(model, promptTokens, parameters.min_tokens);
  const seed = parameters.sluice_continuation?.seed ?? parameters.seed;
  const firstSeed = seed ?? randomInt(RANDOM_SEEDS);
  return prompts.flatMap((prompt, promptIndex) =>
    Array.from({ length: parameters.n }, (_, choice): GenerateRequest => {
      const tokensLeft = model.contextTokens - prompt.promptTokens.length;
      const index = promptIndex * parameters.n + choice;
      return {
        ...shared,
        ...named,
        ...prompt,
        // Several would fetch the same from there.
        ...(kvPeer !== undefined && count === 1 && { kvPeer }),
        id: count === 1 ? id : `${id}-${index}`,
        outputTokensMax: Math.min(prompt.outputTokensMax ?? tokensLeft, tokensLeft),
        sampling: samplingOf(parameters, seedOf(firstSeed, choice)),
      };
    }),
  );
}

function checkTokenIds(parameters: GenerationParameters, model: ServedModel): void {
  for (const [tokenId] of parameters.logit_bias) {
    requireTokenId(model, tokenId, `logit_bias.${tokenId}`);
  }
  for (const [index, tokenId] of parameters.stop_token_ids.entries()) {
    requireTokenId(model, tokenId, `stop_token_ids[${index}]`);
  }
}

/** Throws unless the model has such a token. */
export function requireTokenId(model: ServedModel, tokenId: number, param: string): void {
  if (tokenId < model.vocabularyTokens) return;
  const message =
    `Expected '${param}' to be a token id below ${model.vocabularyTokens}, ` +
    `the size of the vocabulary, found ${tokenId}`;
  throw new ProblemError({ code: "invalid_value", message, param });
}

/** A minimum that the context cuts off would be one that is not kept. */
function requireRoom(model: ServedModel, prompt: readonly number[], outputTokensMin: number): void {
  const tokensLeft = model.contextTokens - prompt.length;
  if (outputTokensMin <= tokensLeft) return;
  const message =
    `Expected 'min_tokens' to be at most ${tokensLeft}, which is what the prompt leaves ` +
    `of the context, found ${outputTokensMin}`;
  throw new ProblemError({ code: "integer_above_max_value", message, param: "min_tokens" });
}

function samplingOf(parameters: GenerationParameters, seed: number): Sampling {
  return {
    temperature: parameters.temperature,
    topK: parameters.top_k,
    topP: parameters.top_p,
    minP: parameters.min_p,
    seed,
    repetitionPenalty: parameters.repetition_penalty,
    frequencyPenalty: parameters.frequency_penalty,
    presencePenalty: parameters.presence_penalty,
    logitBias: parameters.logit_bias,
  };
}

/** Past 2^53 adding 1 changes nothing, and all choices would be one. */
function seedOf(firstSeed: number, choice: number): number {
  const isExact = Number.isSafeInteger(firstSeed) && Number.isSafeInteger(firstSeed + choice);
  return firstSeed + choice * (isExact ? 1 : LARGE_SEED_STEP);
}
