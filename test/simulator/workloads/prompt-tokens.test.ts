import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { ArrivalSpec } from "../../../simulator/workloads/arrival.ts";
import { promptTokenIds } from "../../../simulator/workloads/prompt-tokens.ts";

const VOCABULARY = 128_000;

function arrival(spec: Partial<ArrivalSpec>): ArrivalSpec {
  return {
    atMs: 0,
    tenantIndex: 0,
    promptTokens: 1000,
    prefixTokens: 0,
    prefixGroup: 0,
    outputTokens: 1,
    ...spec,
  };
}

const idsOf = (spec: Partial<ArrivalSpec>, index = 0) =>
  promptTokenIds(arrival(spec), index, VOCABULARY);

/** How many tokens two prompts begin with alike. */
function sharedTokens(a: readonly number[], b: readonly number[]): number {
  const difference = a.findIndex((id, at) => id !== b[at]);
  return difference === -1 ? a.length : difference;
}

test("a prompt has as many ids as it has tokens, all in the vocabulary", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 500 }),
      fc.integer({ min: 2, max: 1e6 }),
      (length, size) => {
        const ids = promptTokenIds(arrival({ promptTokens: length }), length, size);
        expect(ids).toHaveLength(length);
        expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < size)).toBe(true);
      },
    ),
  );
});

test("prompts of one group begin alike as far as the shorter prefix, those of two groups do not", () => {
  const first = idsOf({ prefixGroup: 3, prefixTokens: 400 }, 1);
  expect(sharedTokens(first, idsOf({ prefixGroup: 3, prefixTokens: 300 }, 2))).toBe(300);
  expect(sharedTokens(first, idsOf({ prefixGroup: 3, prefixTokens: 700 }, 2))).toBe(400);
  expect(sharedTokens(first, idsOf({ prefixGroup: 4, prefixTokens: 400 }, 2))).toBe(0);
});

test("a later turn of a session begins with the whole turn before", () => {
  const group = { prefixGroup: 3, prefixTokens: 200 };
  const first = idsOf({ ...group, sessionId: 2 ** 33 + 1 }, 1);
  const second = idsOf({ ...group, sessionId: 2 ** 33 + 1, promptTokens: 1500 }, 2);
  expect(sharedTokens(first, second)).toBe(1000);
  expect(sharedTokens(first, idsOf({ ...group, sessionId: 2 ** 34 + 1 }, 1))).toBe(200);
});

test("lone requests have nothing in common", () => {
  expect(sharedTokens(idsOf({}, 1), idsOf({}, 2))).toBe(0);
});

const blocks = (ids: readonly number[]) => ({ promptBlocks: { blockTokens: 400, ids } });

test("recorded blocks say exactly what is shared, whatever group and session are", () => {
  const first = idsOf(blocks([7, 8, 9]), 1);
  expect(first).toHaveLength(1000);
  expect(sharedTokens(first, idsOf({ ...blocks([7, 8, 10]), sessionId: 5 }, 2))).toBe(800);
  expect(sharedTokens(first, idsOf(blocks([7, 8, 9]), 2))).toBe(1000);
});

test("the begun last block that a recording leaves out is the request's own", () => {
  expect(sharedTokens(idsOf(blocks([7, 8]), 1), idsOf(blocks([7, 8]), 2))).toBe(800);
});
