import { expect, test } from "vitest";
import { bailianArrivals } from "../../../simulator/traces/bailian.ts";

const ALL = { requestsMax: 100 };
const row = (change: object = {}) =>
  JSON.stringify({
    chat_id: 1,
    parent_chat_id: -1,
    timestamp: 61.5,
    input_length: 40,
    output_length: 9,
    type: "text",
    turn: 1,
    hash_ids: [1, 2, 3],
    ...change,
  });

const sessionsOf = (lines: readonly string[]) =>
  [...bailianArrivals(lines, ALL)].map(({ sessionId }) => sessionId);

test("a line is one request in seconds, with the ids of its 16-token blocks", () => {
  const lines = [row(), row({ chat_id: 2, timestamp: 62 })];
  expect([...bailianArrivals(lines, ALL)]).toMatchObject([
    {
      atMs: 0,
      promptTokens: 40,
      outputTokens: 9,
      promptBlocks: { blockTokens: 16, ids: [1, 2, 3] },
    },
    { atMs: 500 },
  ]);
});

test("a chat that continues another belongs to its session, over any number of turns", () => {
  const lines = [
    row({ chat_id: 1 }),
    row({ chat_id: 2 }),
    row({ chat_id: 3, parent_chat_id: 1, turn: 2 }),
    row({ chat_id: 4, parent_chat_id: 3, turn: 3 }),
    row({ chat_id: 5, parent_chat_id: 2, turn: 2 }),
  ];
  expect(sessionsOf(lines)).toEqual([1, 2, 1, 1, 2]);
});

test("turns whose parent was never recorded share the parent's session", () => {
  const lines = [row({ chat_id: 8, parent_chat_id: 7 }), row({ chat_id: 9, parent_chat_id: 8 })];
  expect(sessionsOf(lines)).toEqual([7, 7]);
});

test.each([
  [{ chat_id: undefined }, "a whole number of at least 0 as chat_id, found nothing"],
  [{ parent_chat_id: -2 }, "a whole number of at least -1 as parent_chat_id, found -2"],
  [{ hash_ids: [1] }, "3 hash_ids for 40 tokens, found 1"],
])("a line with %j is an error that names it and what was expected", (change, expected) => {
  expect(() => sessionsOf([row(), row(change)])).toThrow(`Line 2: expected ${expected}`);
});
