import { join } from "node:path";
import { expect, test } from "vitest";
import type { ArrivalSpec } from "../../../simulator/workloads/arrival.ts";
import { linesOf } from "../../../simulator/traces/lines.ts";
import { mooncakeArrivals } from "../../../simulator/traces/mooncake.ts";
import { sharedTraces } from "../shared-traces.ts";
import { meanOf } from "../workloads/moments.ts";

const ALL = { requestsMax: 100_000 };
const row = (change: object = {}) =>
  JSON.stringify({
    timestamp: 1000,
    input_length: 1100,
    output_length: 50,
    hash_ids: [4, 5, 6],
    ...change,
  });

test("a line is one request with the ids of its 512-token blocks", () => {
  expect([...mooncakeArrivals([row(), row({ timestamp: 4000 })], ALL)]).toMatchObject([
    { atMs: 0, promptTokens: 1100, outputTokens: 50 },
    { atMs: 3000, promptBlocks: { blockTokens: 512, ids: [4, 5, 6] } },
  ]);
});

test("the begun last block may have no id", () => {
  const [arrival] = [...mooncakeArrivals([row({ hash_ids: [4, 5] })], ALL)];
  expect(arrival?.promptBlocks?.ids).toEqual([4, 5]);
});

test.each([
  ["{", "a JSON object, found"],
  ["7", 'a JSON object, found "7"'],
  [row({ hash_ids: [4] }), "3 hash_ids for 1100 tokens, found 1"],
  [row({ hash_ids: [4, 5, 6, 7] }), "3 hash_ids for 1100 tokens, found 4"],
  [row({ hash_ids: [4, -5, 6] }), "a list of whole numbers as hash_ids, found [4,-5,6]"],
  [row({ hash_ids: undefined }), "a list of whole numbers as hash_ids, found nothing"],
  [row({ input_length: -1 }), "a whole number of at least 0 as input_length, found -1"],
  [row({ timestamp: "soon" }), 'a number of at least 0 as timestamp, found "soon"'],
])("a line %s is an error that names it and what was expected", (line, expected) => {
  expect(() => [...mooncakeArrivals([row(), line], ALL)]).toThrow(`Line 2: expected ${expected}`);
});

/** Blocks whose whole prefix was seen before, over all blocks: the hit of a cache without bound. */
function infiniteHitRatio(arrivals: readonly ArrivalSpec[]): number {
  const seen = new Set<number>();
  let blocks = 0;
  let hits = 0;
  for (const { promptBlocks } of arrivals) {
    const ids = promptBlocks?.ids ?? [];
    const firstNew = ids.findIndex((id) => !seen.has(id));
    hits += firstNew === -1 ? ids.length : firstNew;
    blocks += ids.length;
    for (const id of ids) seen.add(id);
  }
  return hits / blocks;
}

test.for([
  { name: "conversation", rows: 12_031, prompt: 12_035, output: 343, hitRatio: 0.366 },
  { name: "synthetic", rows: 3993, prompt: 15_325, output: 149, hitRatio: 0.64 },
])("the public $name trace has its published rows, means and prefix hits", (published, context) => {
  const path = join(sharedTraces(context), `mooncake/${published.name}_trace.jsonl`);
  const arrivals = [...mooncakeArrivals(linesOf(path), ALL)];
  expect(arrivals).toHaveLength(published.rows);
  expect(Math.round(meanOf(arrivals.map(({ promptTokens }) => promptTokens)))).toBe(
    published.prompt,
  );
  expect(Math.round(meanOf(arrivals.map(({ outputTokens }) => outputTokens)))).toBe(
    published.output,
  );
  expect(infiniteHitRatio(arrivals)).toBeCloseTo(published.hitRatio, 2);
});
