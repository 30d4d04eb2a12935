import { expect, test } from "vitest";
import { TokenTelling } from "../../../gpu-backend/server/token-telling.ts";

const START = {
  seed: 1,
  system_fingerprint: "fp",
  output_tokens_max: 9,
  prompt_tokens: 3,
  cached_tokens: 0,
};

test("the last chunk of a part says the tokens of all of it, the first of all how the answer began", () => {
  const telling = new TokenTelling(() => START);
  expect(telling.tell([{ a: 1 }, { b: 2 }], [7, 8])).toEqual([
    { a: 1 },
    { b: 2, sluice_progress: { token_ids: [7, 8], start: START } },
  ]);
  expect(telling.tell([{ c: 3 }], [9])).toEqual([{ c: 3, sluice_progress: { token_ids: [9] } }]);
});

test("tokens of a part without a chunk are told with the next one that has some", () => {
  const telling = new TokenTelling();
  expect(telling.tell([], [1, 2])).toEqual([]);
  expect(telling.tell([{}], [3])).toEqual([{ sluice_progress: { token_ids: [1, 2, 3] } }]);
});

test("a part that is only complete with the next one says nothing", () => {
  const telling = new TokenTelling();
  telling.tell([], [1]);
  expect(telling.tell([{ a: 1 }], undefined)).toEqual([{ a: 1 }]);
  expect(telling.tell([{ b: 2 }], [2])).toEqual([{ b: 2, sluice_progress: { token_ids: [1, 2] } }]);
});

test("chunks that bring no token say so: whoever has them has all", () => {
  expect(new TokenTelling().tell([{}], [])).toEqual([{ sluice_progress: { token_ids: [] } }]);
});
