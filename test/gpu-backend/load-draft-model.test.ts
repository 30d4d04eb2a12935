import { expect, test } from "vitest";
import {
  NO_SPECULATING,
  type Speculating,
} from "../../gpu-backend/engine/speculation/speculating.ts";
import { type TokenBytes, tokenBytesOf } from "../../gpu-backend/engine/tokenizer/token-bytes.ts";
import {
  isSentencePiece,
  readTokenizerFile,
} from "../../gpu-backend/engine/tokenizer/tokenizer-files.ts";
import { loadDraftModel } from "../../gpu-backend/load-draft-model.ts";
import { BUNDLED_DRAFT, BUNDLED_MODEL } from "../../gpu-backend/settings.ts";
import { aGenerateRequest, aScheduling } from "../support/engine-builders.ts";

const VOCABULARY_TOKENS = 4096;
const DRAFTING = { mode: "draft", draftTokensMax: 4, draftModelDirectory: BUNDLED_DRAFT } as const;

const load = (
  tokenBytes: TokenBytes,
  {
    vocabularyTokens = VOCABULARY_TOKENS,
    speculating = DRAFTING,
  }: { vocabularyTokens?: number; speculating?: Speculating } = {},
) =>
  loadDraftModel(
    {
      modelDirectory: BUNDLED_MODEL,
      precision: "int8",
      kvPrecision: undefined,
      runtime: "wasm",
      blockTokens: 16,
      blockCount: 64,
      batchTokensMax: 64,
      sequencesMax: 2,
      queueMax: 2,
      prefixCache: true,
      scheduling: aScheduling(),
      speculating,
    },
    { vocabularyTokens, tokenBytes },
  );

const file = await readTokenizerFile(BUNDLED_MODEL);
const tokenBytes = tokenBytesOf(file);

test("a draft model with the tokens of the served one drafts for it", async () => {
  const model = await load(tokenBytes);
  const { id, sampling } = aGenerateRequest();
  const wish = { id, tokens: [0, 3, 1976, 7, 5, 4], sampling, outputIndex: 0, draftTokens: 3 };
  expect((await model?.draft([wish]))?.get(id)).toHaveLength(3);
});

test("one whose tokens are others, be it a single one or their number, is refused", async () => {
  if (isSentencePiece(file)) throw new Error("the bundled tokenizer is of bytes");
  const [one = "", other = ""] = Object.keys(file.model.vocab).slice(-2);
  const { [one]: idOfOne = 0, [other]: idOfOther = 0 } = file.model.vocab;
  const vocab = { ...file.model.vocab, [one]: idOfOther, [other]: idOfOne };
  const swapped = tokenBytesOf({ ...file, model: { ...file.model, vocab } });
  await expect(load(swapped)).rejects.toThrow(
    "--draft-model: expected the vocabulary of the served model (4096 tokens), found another one of 4096 tokens",
  );
  await expect(load(tokenBytes, { vocabularyTokens: 4097 })).rejects.toThrow("(4097 tokens)");
});

test("where none is wanted none is loaded", async () => {
  expect(await load(tokenBytes, { speculating: NO_SPECULATING })).toBeUndefined();
});
