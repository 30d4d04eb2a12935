import { describe, expect, test } from "vitest";
import {
  canonicalRequest,
  deriveAnswerKey,
  isDeterministic,
} from "../../../src/prompt-cache/answer-key.ts";
import { deriveNamespace } from "../../../src/prompt-cache/cache-salt.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { KEY_PRIMITIVES } from "../../support/key-primitives.ts";

const namespaceOf = (tenant: string, generation = 0) =>
  deriveNamespace(
    { tenantId: TenantId.parse(tenant), generation },
    new Uint8Array(32).fill(7),
    KEY_PRIMITIVES,
  );

function canonicalOf(json: string): string | undefined {
  return canonicalRequest(json, JSON.parse(json));
}

test.each([
  [{ temperature: 0 }, true],
  [{ temperature: -0 }, true],
  [{ seed: 0 }, true],
  [{ seed: 7, temperature: 1 }, true],
  [{}, false],
  [{ temperature: 0.1 }, false],
  [{ temperature: null, seed: null }, false],
  [{ temperature: "0" }, false],
])("a request with %o allows but one answer: %s", (body, expected) => {
  expect(isDeterministic(body)).toBe(expected);
});

describe("canonicalRequest()", () => {
  test("is the same for other spaces and another order of parameters", () => {
    expect(canonicalOf('{ "a": 1, "b": [1, {"x": 2}] }')).toBe(
      canonicalOf('{"b":[1,{"x":2}],"a":1}'),
    );
  });

  test("is the same whether or not a request says what holds anyway", () => {
    expect(canonicalOf('{"a":1,"stream":false,"n":1}')).toBe(canonicalOf('{"a":1}'));
    expect(canonicalOf('{"a":1,"stream":null,"n":null}')).toBe(canonicalOf('{"a":1}'));
    for (const other of ['{"a":1,"stream":true}', '{"a":1,"n":2}', '{"a":1,"n":false}']) {
      expect(canonicalOf(other)).not.toBe(canonicalOf('{"a":1}'));
    }
  });

  test.each([
    ['{"a":1}', '{"a":2}'],
    ['{"a":1}', '{"b":1}'],
    ['{"a":{"x":1,"y":2}}', '{"a":{"y":2,"x":1}}'],
    ['{"a":"1"}', '{"a":1}'],
    ['{"a":null}', "{}"],
  ])("tells %s from %s", (one, other) => {
    expect(canonicalOf(one)).not.toBe(canonicalOf(other));
  });

  test("is none where numbers are longer than can be told apart", () => {
    expect(canonicalOf('{"seed":9007199254740993}')).toBeUndefined();
    expect(canonicalOf('{"seed":900719925474099}')).toBeDefined();
  });
});

test("an answer's key is its owner's, its generation's, its model's and its route's", () => {
  const request = { path: "/a", modelRevision: "m", canonical: "c" };
  const keys = [
    deriveAnswerKey(namespaceOf("ann"), request, KEY_PRIMITIVES),
    deriveAnswerKey(namespaceOf("bob"), request, KEY_PRIMITIVES),
    deriveAnswerKey(namespaceOf("ann", 1), request, KEY_PRIMITIVES),
    deriveAnswerKey(namespaceOf("ann"), { ...request, path: "/b" }, KEY_PRIMITIVES),
    deriveAnswerKey(namespaceOf("ann"), { ...request, modelRevision: "n" }, KEY_PRIMITIVES),
    deriveAnswerKey(namespaceOf("ann"), { ...request, canonical: "d" }, KEY_PRIMITIVES),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(deriveAnswerKey(namespaceOf("ann"), request, KEY_PRIMITIVES)).toBe(keys[0]);
});
