import { monotonicNowMs } from "./clock.ts";
import { DraftModel } from "./draft-model.ts";
import type { Executor } from "./engine/executor/executor.ts";
import { createOnnxExecutor } from "./engine/executor/onnx-executor.ts";
import { createSamplingKernel } from "./engine/executor/sampling-kernel.ts";
import { loadModel } from "./engine/model/load-model.ts";
import { Sampler } from "./engine/sampler.ts";
import { byteLevelTokenBytes, type TokenBytes } from "./engine/tokenizer/token-bytes.ts";
import { readTokenizerFile } from "./engine/tokenizer/tokenizer-files.ts";
import { defaultBlockCount } from "./model-size.ts";
import type { EngineThreadOptions } from "./thread-messages.ts";
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
  const tokenBytes = byteLevelTokenBytes(await readTokenizerFile(directory));
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
  const executor = await createOnnxExecutor({
    model,
    precision,
    kvPrecision,
    runtime: options.runtime,
    blockTokens: options.blockTokens,
    blockCount: defaultBlockCount(model.config, {
      blockTokens: options.blockTokens,
      shareCount: 1,
      kvPrecision,
    }),
    batchTokensMax: options.batchTokensMax,
  });
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
