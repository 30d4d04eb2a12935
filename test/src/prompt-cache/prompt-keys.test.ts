import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ChatRequestShape } from "../../../src/protocol/chat.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { CHAIN_BLOCKS_MAX } from "../../../src/protocol/prompt-chain.ts";
import { chatParts, textParts } from "../../../src/protocol/prompt-parts.ts";
import { canonicalPrompt } from "../../../src/prompt-cache/canonical-prompt.ts";
import { deriveCacheSalt, deriveNamespace } from "../../../src/prompt-cache/cache-salt.ts";
import { deriveChainRoot, derivePromptKeys } from "../../../src/prompt-cache/prompt-keys.ts";
import { KEY_PRIMITIVES } from "../../support/key-primitives.ts";

const MASTER = new Uint8Array(32).fill(7);
const FOX = "The quick brown fox jumps over the lazy dog. ".repeat(40);
const LONG = [
  { role: "system", content: FOX },
  { role: "user", content: "Hi" },
];

interface Wish {
  readonly tenant?: string;
  readonly generation?: number;
  readonly userName?: string;
  readonly cacheKey?: string;
  readonly modelRevision?: string;
  readonly templateRevision?: string;
  readonly body?: object;
}

function keysOf(wish: Wish = {}) {
  const { tenant = "tenant-a", generation = 0, userName, cacheKey } = wish;
  const { modelRevision = "m@1", templateRevision = "t@1", body = { messages: LONG } } = wish;
  const owner = { tenantId: TenantId.parse(tenant), generation };
  const namespace = deriveNamespace(
    { ...owner, ...(userName !== undefined && { userName }) },
    MASTER,
    KEY_PRIMITIVES,
  );
  const model = { modelRevision, templateRevision };
  const chainRoot = deriveChainRoot(namespace, model, KEY_PRIMITIVES);
  const keys = derivePromptKeys(
    { namespace, chainRoot },
    {
      parts: chatParts(ChatRequestShape.parse({ model: "m", ...body })),
      modelRevision,
      ...(cacheKey !== undefined && { cacheKey }),
    },
    KEY_PRIMITIVES,
  );
  return { ...keys, cacheSalt: deriveCacheSalt(namespace, modelRevision, KEY_PRIMITIVES) };
}

/** How many hashes two prompts have in common, from the first one on. */
function sharedBlocks(one: object, other: object): number {
  const [a, b] = [keysOf({ body: one }).hashes, keysOf({ body: other }).hashes];
  const unlike = a.findIndex((hash, index) => hash !== b[index]);
  return unlike === -1 ? a.length : unlike;
}

function bytesOf(body: object): Uint8Array {
  return canonicalPrompt(
    chatParts(ChatRequestShape.parse({ model: "m", ...body })),
    KEY_PRIMITIVES,
  );
}

const picture = (url: string) => userSays([{ type: "image_url", image_url: { url } }]);
const tokens = (tokenIds: number[]) => textParts({ kind: "tokens", tokenIds })[0]?.pieces[0]?.text;
const userSays = (content: unknown) => ({ messages: [{ role: "user", content }] });

describe("derivePromptKeys()", () => {
  test.each([
    [
      "a tenant",
      {},
      "4q5tIpxcS0WryvbNi26UKmIvFvt4V8iPIYjzx6jHdcA",
      "XGBMWgOtnaPi18V2iQ3hWw",
      "eab0foVr3UwUmOBgs2KsZA",
      "ExUPpfIvuHM-SRQRKJSMSg",
    ],
    [
      "a cache key",
      { cacheKey: "conv-1" },
      "4q5tIpxcS0WryvbNi26UKmIvFvt4V8iPIYjzx6jHdcA",
      "Bx43pJrPWOgODwNv7ZUQlQ",
      "eab0foVr3UwUmOBgs2KsZA",
      "ExUPpfIvuHM-SRQRKJSMSg",
    ],
    [
      "another tenant",
      { tenant: "tenant-b", cacheKey: "conv-1" },
      "51FF3TZ-ShfVok1ZQ8Y0iE2GCaNqxr9pLosSJTsT1kk",
      "_RcHfuR66N-mFa5b8GyGsQ",
      "pEbLdfQt7l4nnHEiaEnc-g",
      "fzBTXUR6Lw5uURRWQ9snvw",
    ],
    [
      "a short prompt",
      { body: userSays("Hi") },
      "4q5tIpxcS0WryvbNi26UKmIvFvt4V8iPIYjzx6jHdcA",
      "HKy4gRpwClXXgNiaoeG8oQ",
      undefined,
      undefined,
    ],
  ])("gives the recorded vector of %s", (_, wish: Wish, cacheSalt, route, first, third) => {
    const keys = keysOf(wish);
    expect(keys).toMatchObject({ cacheSalt, route });
    expect([keys.hashes[0], keys.hashes[2]]).toEqual([first, third]);
  });

  test("gives everything anew in the next generation: a vector of our own", () => {
    const keys = keysOf({ generation: 1, cacheKey: "conv-1" });
    expect({ ...keys, hashes: keys.hashes.slice(0, 1) }).toEqual({
      cacheSalt: "QWpnonwCiNBif4MsnnITzwu6fWA3V6BEz5qR4iCd1Pg",
      route: "XalWYIOAiB5UmbV4i7GbuQ",
      hashes: ["gEmvH8rSpOSIST3ueMUzWw"],
      promptBytes: 1820,
    });
  });

  test("gives no value of one owner, model or template to another", () => {
    const all = [
      keysOf(),
      keysOf({ tenant: "tenant-b" }),
      keysOf({ generation: 1 }),
      keysOf({ userName: "someone" }),
      keysOf({ modelRevision: "m@2" }),
    ];
    for (const valueOf of [
      (keys: (typeof all)[number]) => [keys.cacheSalt],
      (keys: (typeof all)[number]) => [keys.route],
      (keys: (typeof all)[number]) => keys.hashes,
    ]) {
      const values = all.flatMap(valueOf);
      expect(new Set(values).size).toBe(values.length);
    }
    expect(keysOf({ templateRevision: "t@2" }).hashes).not.toEqual(keysOf().hashes);
  });

  test("changes nothing but the route for another cache key", () => {
    const { route, ...rest } = keysOf({ cacheKey: "conv-1" });
    const { route: other, ...others } = keysOf({ cacheKey: "conv-2" });
    expect(others).toEqual(rest);
    expect(other).not.toBe(route);
    expect(keysOf({ cacheKey: "" }).route).not.toBe(keysOf().route);
  });

  test("shares blocks exactly as far as two texts begin alike", () => {
    const word = fc.constantFrom("a", "é", "狐", "\u{1F98A}");
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 3_000 }),
        fc.array(word, { minLength: 1, maxLength: 600 }),
        fc.array(word, { minLength: 1, maxLength: 600 }),
        (common, one, other) => {
          const [a, b] = [[...common, ...one].join(""), [...common, ...other].join("")];
          const utf8 = new TextEncoder();
          const [aBytes, bBytes] = [utf8.encode(a), utf8.encode(b)];
          let alike = 0;
          while (alike < aBytes.length && aBytes[alike] === bBytes[alike]) alike += 1;
          // Mark and tag of the role, its text, mark and tag of the content.
          const blocks = Math.floor((2 + 4 + 2 + alike) / 512);
          expect(sharedBlocks(userSays(a), userSays(b))).toBe(blocks);
        },
      ),
      { numRuns: 50 },
    );
  });

  test("keeps the blocks of a conversation that grows, in its last message too", () => {
    const grown = [
      ...LONG,
      { role: "assistant", content: "Hello" },
      { role: "user", content: FOX },
    ];
    const before = keysOf().hashes;
    expect(keysOf({ body: { messages: grown } }).hashes.slice(0, before.length)).toEqual(before);
    expect(sharedBlocks(userSays(FOX), userSays(FOX + FOX))).toBe(
      keysOf({ body: userSays(FOX) }).hashes.length,
    );
  });

  test.each([
    ["a part of its own", userSays(FOX), userSays([{ type: "text", text: FOX }])],
    [
      "text in several parts",
      userSays(FOX),
      userSays([
        { type: "text", text: FOX.slice(0, 700) },
        { type: "text", text: FOX.slice(700) },
      ]),
    ],
    [
      "a mark for a cache",
      userSays([{ type: "text", text: FOX }]),
      userSays([{ type: "text", text: FOX, cache_control: { type: "ephemeral" } }]),
    ],
    [
      "a mark on a tool",
      { ...userSays(FOX), tools: [{ type: "function", function: { name: "f" } }] },
      {
        ...userSays(FOX),
        tools: [
          { type: "function", function: { name: "f" }, cache_control: { type: "ephemeral" } },
        ],
      },
    ],
    [
      "a developer",
      { messages: [{ role: "system", content: FOX }] },
      { messages: [{ role: "developer", content: FOX }] },
    ],
    [
      "tools that must not be called",
      userSays(FOX),
      {
        ...userSays(FOX),
        tool_choice: "none",
        tools: [{ type: "function", function: { name: "f" } }],
      },
    ],
    [
      "what does not enter the prompt",
      userSays(FOX),
      { ...userSays(FOX), temperature: 1, stream: true, user: "me", metadata: { a: "b" }, n: 2 },
    ],
  ])("takes %s for the same prompt", (_, one, other) => {
    expect(keysOf({ body: other })).toEqual(keysOf({ body: one }));
  });

  test.each([
    ["role", { messages: [{ role: "system", content: FOX }] }],
    ["name", { messages: [{ role: "user", name: "Ann", content: FOX }] }],
    ["tools", { ...userSays(FOX), tools: [{ type: "function", function: { name: "f" } }] }],
    [
      "called tools",
      {
        messages: [
          {
            role: "user",
            content: FOX,
            tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
          },
        ],
      },
    ],
    [
      "a picture",
      userSays([
        { type: "text", text: FOX },
        { type: "image_url", image_url: { url: "a" } },
      ]),
    ],
  ])("takes another %s for another prompt", (_, body) => {
    expect(bytesOf(body)).not.toEqual(bytesOf(userSays(FOX)));
  });

  test("tells two pictures apart, and lists of tokens as far as they begin alike", () => {
    expect(keysOf({ body: picture("a") }).route).not.toBe(keysOf({ body: picture("b") }).route);
    expect(tokens([1, 23])?.startsWith(tokens([1, 2]) ?? "-")).toBe(false);
    expect(tokens([1, 2, 3])?.startsWith(tokens([1, 2]) ?? "-")).toBe(true);
  });

  test("hashes no more blocks than are told", () => {
    const keys = keysOf({ body: userSays("x".repeat(1_048_576)) });
    expect(keys.hashes).toHaveLength(CHAIN_BLOCKS_MAX);
    expect(keys.promptBytes).toBeGreaterThan(1_048_576);
  });

  test("takes text that is not well-formed as if its halves of characters were replaced", () => {
    expect(keysOf({ body: userSays("\ud800") })).toEqual(keysOf({ body: userSays("\ufffd") }));
  });
});
