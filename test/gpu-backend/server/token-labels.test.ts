import { describe, expect, test } from "vitest";
import { SpecialTokens } from "../../../gpu-backend/engine/tokenizer/special-tokens.ts";
import { TokenBytes } from "../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { LegacyLogprobs } from "../../../gpu-backend/server/legacy-logprobs.ts";
import { TokenLabels } from "../../../gpu-backend/server/token-labels.ts";

const END = 5;
const [LEAD = 0, REST = 0] = Buffer.from("é");
const tokenBytes = new TokenBytes(
  new Map([
    [1, Uint8Array.from(Buffer.from(" fox"))],
    [2, Uint8Array.of(LEAD)],
    [3, Uint8Array.of(REST)],
    [END, new Uint8Array()],
  ]),
);
const special = new SpecialTokens([
  {
    id: END,
    content: "<|end|>",
    special: true,
    lstrip: false,
    rstrip: false,
    single_word: false,
    normalized: false,
  },
]);
const tokenLabels = new TokenLabels(tokenBytes, special);

const scored = (tokenId: number, logprob: number) => ({
  tokenId,
  logprob: { tokenId, logprob, top: [{ tokenId: 1, logprob: -0.1 }] },
});

describe("TokenLabels", () => {
  test.each([
    [1, " fox", [32, 102, 111, 120]],
    [2, "bytes:\\xc3", [0xc3]],
    [3, "bytes:\\xa9", [0xa9]],
    [END, "<|end|>", null],
    [4, "", []],
  ])("token %d is written %j", (tokenId, token, bytes) => {
    expect(tokenLabels.of(tokenId)).toEqual({ token, bytes });
  });
});

describe("LegacyLogprobs", () => {
  test("offsets are where a token's text begins, on from piece to piece", () => {
    const legacy = new LegacyLogprobs({ tokenBytes, tokenLabels });
    const first = legacy.push([{ tokenId: END, logprob: undefined }, scored(1, -0.5)]);
    expect(first).toEqual({
      tokens: ["<|end|>", " fox"],
      token_logprobs: [null, -0.5],
      top_logprobs: [null, { " fox": -0.5 }],
      text_offset: [0, 0],
    });
    const second = legacy.push([scored(2, -1), scored(3, -2), scored(1, -3)]);
    expect(second.text_offset).toEqual([4, 4, 5]);
    expect(second.top_logprobs[0]).toEqual({ " fox": -0.1, "bytes:\\xc3": -1 });
  });

  test("what is all but impossible is a number that JSON can hold", () => {
    const legacy = new LegacyLogprobs({ tokenBytes, tokenLabels });
    expect(legacy.push([scored(1, Number.NEGATIVE_INFINITY)]).token_logprobs).toEqual([-9999]);
  });
});
