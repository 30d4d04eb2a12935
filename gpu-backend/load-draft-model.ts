import { monotonicNowMs } from "./clock.ts";
import { DraftModel } from "./draft-model.ts";
import type { Executor } from "./engine/executor/executor.ts";
import { createOnnxExecutor } from "./engine/executor/onnx-executor.ts";
import { createSamplingKernel } from "./engine/executor/sampling-kernel.ts";
import { type LoadedModel, loadModel } from "./engine/model/load-model.ts";
import { Sampler } from "./engine/sampler.ts";
import { type TokenBytes, tokenBytesOf } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import type { EngineThreadOptions } from "./thread-messages.ts";
import { unaskedBlockCount } from "./unasked-block-count.ts";
import { warmUp } from "./warm-up.ts";

/** What the model that is drafted for says its outputs in. */
export interface ServedTokens {
  readonly vocabularyTokens: number;
  readonly tokenBytes: TokenBytes;
}

/**
 * Loads the draft model, if one is used, and measures it. Throws where its tokens are not those of the
 * served model: each of its guesses would mean something else.
 */
export async function loadDraftModel(
  options: EngineThreadOptions,
  served: ServedTokens,
): Promise<DraftModel | undefined> {
  const { draftModelDirectory: directory } = options.speculating;
  if (directory === undefined) return undefined;
  const model = await loadModel(directory);
  try {
    await requireSameTokens(directory, model.config.vocabularyTokens, served);
    const executor = await createDraftExecutor(model, options);
    const { vocabularyTokens } = executor;
    const sampler = new Sampler(vocabularyTokens, createSamplingKernel(vocabularyTokens));
    const speed = await warmUp(executor, monotonicNowMs);
    return new DraftModel({ executor, sampler, speed, nowMs: monotonicNowMs });
  } finally {
    model.close();
  }
}

async function requireSameTokens(
  directory: string,
  vocabularyTokens: number,
  served: ServedTokens,
): Promise<void> {
  const { vocabularyTokens: expectedTokens } = served;
  const tokenBytes = tokenBytesOf(await readTokenizerFile(directory));
  if (vocabularyTokens === expectedTokens && tokenBytes.equals(served.tokenBytes)) return;
  throw new Error(
    `--draft-model: expected the vocabulary of the served model (${expectedTokens} ` +
      `tokens), found another one of ${vocabularyTokens} tokens in ${directory}`,
  );
}

function createDraftExecutor(model: LoadedModel, options: EngineThreadOptions): Promise<Executor> {
  const { precision, kvPrecision = precision } = options;
  const { runtime, blockTokens, batchTokensMax } = options;
  return createOnnxExecutor({
    model,
    precision,
    kvPrecision,
    runtime,
    blockTokens,
    blockCount: unaskedBlockCount(model, { ...options, kvPrecision }, 1),
    batchTokensMax,
  });
}
