import { monotonicNowMs } from "./clock.ts";
import { DraftModel } from "./draft-model.ts";
import type { Executor } from "./engine/executor/executor.ts";
import { createOnnxExecutor } from "./engine/executor/onnx-executor.ts";
import { createSamplingKernel } from "./engine/executor/sampling-kernel.ts";
import { loadModel } from "./engine/model/load-model.ts";
import { Sampler } from "./engine/sampler.ts";
import { type TokenBytes, tokenBytesOf } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import type { EngineThreadOptions } from "./thread-messages.ts";
import { unaskedBlockCount } from "./unasked-block-count.ts";
import { warmUp } from "./warm-up.ts";

/** The model that is drafted for. */
export interface Drafted {
  readonly executor: Executor;
  readonly tokenBytes: TokenBytes;
}

/**
 * Loads the draft model, if one is used, and measures it. Throws where its tokens are not those of the
 * served model: each of its guesses would mean something else.
 */
export async function loadDraftModel(
  options: EngineThreadOptions,
  served: Drafted,
): Promise<DraftModel | undefined> {
  const { draftModelDirectory: directory } = options.speculating;
  if (directory === undefined) return undefined;
  const model = await loadModel(directory);
  const { vocabularyTokens } = model.config;
  const tokenBytes = tokenBytesOf(await readTokenizerFile(directory));
  if (
    vocabularyTokens !== served.executor.vocabularyTokens ||
    !areSame(tokenBytes, served.tokenBytes)
  ) {
    throw new Error(
      `--draft-model: expected the vocabulary of the served model (${served.executor.vocabularyTokens} ` +
        `tokens), found another one of ${vocabularyTokens} tokens in ${directory}`,
    );
  }
  const { precision, kvPrecision = precision } = options;
  const { runtime, blockTokens, batchTokensMax } = options;
  const executor = await createOnnxExecutor({
    model,
    precision,
    kvPrecision,
    runtime,
    blockTokens,
    blockCount: unaskedBlockCount(model, { ...options, kvPrecision }, 1),
    batchTokensMax,
  }).finally(() => model.close());
  const sampler = new Sampler(vocabularyTokens, createSamplingKernel(vocabularyTokens));
  const speed = await warmUp(executor, monotonicNowMs);
  return new DraftModel({ executor, sampler, speed, nowMs: monotonicNowMs });
}

function areSame(a: TokenBytes, b: TokenBytes): boolean {
  if (a.vocabularyTokens !== b.vocabularyTokens) return false;
  return Array.from({ length: a.vocabularyTokens }, (_, id) => id).every((id) =>
    Buffer.from(a.of(id)).equals(b.of(id)),
  );
}
