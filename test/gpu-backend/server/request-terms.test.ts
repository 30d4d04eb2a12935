import { describe, expect, test } from "vitest";
import { readEngineHeaders } from "../../../gpu-backend/server/engine-headers.ts";
import { requestTerms } from "../../../gpu-backend/server/generation.ts";

const ARRIVED_AT_MS = 5000;

/** What a request owes that came with these headers, and with this in its body. */
function termsOf(
  sent: Readonly<Record<string, string>>,
  body: { readonly cache_salt?: string; readonly priority?: number } = {},
  requireSalt = false,
) {
  const headers = readEngineHeaders((name) => sent[name]);
  return requestTerms({ requireSalt }, { headers, arrivedAtMs: ARRIVED_AT_MS }, body);
}

describe("what a request owes to whoever sent it", () => {
  test("without headers is what its body says, and nothing is promised", () => {
    expect(termsOf({})).toEqual({ cacheSalt: "", tenant: "", priority: 0 });
    expect(termsOf({}, { cache_salt: "mine", priority: -3 })).toEqual({
      cacheSalt: "mine",
      tenant: "",
      priority: -3,
    });
  });

  test("is what the gateway says, whatever the client asks for", () => {
    const sent = {
      "x-gw-cache-salt": "theirs",
      "x-gw-tenant": "t-17",
      "x-gw-priority": "2",
      "x-gw-deadline-ms": "250.5",
      "x-gw-tbt-ms": "40",
    };
    expect(termsOf(sent, { cache_salt: "mine", priority: -3 })).toEqual({
      cacheSalt: "theirs",
      tenant: "t-17",
      priority: 2,
      firstTokenDeadlineAtMs: ARRIVED_AT_MS + 250.5,
      tbtTargetMs: 40,
    });
  });

  test("is not taken from the body where a salt is required", () => {
    const code = expect.objectContaining({ problem: { code: "missing_cache_salt" } });
    expect(() => termsOf({}, { cache_salt: "mine" }, true)).toThrow(code);
  });

  test.each([
    ["x-gw-cache-salt", ["", "has space", "ü", "s".repeat(129)]],
    ["x-gw-tenant", ["", "has space"]],
    ["x-gw-priority", ["", "1.5", "high", "+1", "1234567890"]],
    ["x-gw-deadline-ms", ["", "-1", "soon", "1e3", "NaN"]],
    ["x-gw-tbt-ms", ["", "0", "0.0", "-1", "Infinity"]],
    ["x-gw-tell-tokens", ["", "0", "true", "2"]],
    ["x-gw-dispatch", ["", "epoch", ".1", "epoch."]],
  ])("is not guessed where %s makes no sense", (name, texts) => {
    for (const text of texts) {
      expect(() => termsOf({ [name]: text })).toThrow(`Expected the header '${name}' to be`);
    }
  });
});
