import { createHmac, randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  API_KEY_SECRET_BYTES,
  checksumOf,
  makeApiKey,
  splitApiKey,
} from "../../../src/tenants/api-key.ts";
import { parseApiKey } from "../../../src/tenants/configuration-file.ts";
import { nextKeyName } from "../../../src/tenants/next-key-name.ts";

const hmac = (text: string) => createHmac("sha256", "pepper").update(text).digest("base64url");
const made = () => makeApiKey(randomBytes(API_KEY_SECRET_BYTES).toString("base64url"), hmac);

test("makeApiKey() makes a key that a file may have, of at least 192 random bits", () => {
  const key = made();
  expect(key).toMatch(/^sk-sluice-[\w-]{48}$/);
  expect(parseApiKey(key)).toBe(key);
  expect(API_KEY_SECRET_BYTES * 8).toBeGreaterThanOrEqual(192);
  expect(made()).not.toBe(key);
});

test("splitApiKey() takes a key apart whose checksum is that of its body", () => {
  const key = made();
  const parts = splitApiKey(key);
  expect(`${parts?.body}${parts?.checksum}`).toBe(key);
  expect(parts?.checksum).toBe(checksumOf(parts?.body ?? "", hmac));
});

test("a key in which one character is another has not the checksum that it should have", () => {
  fc.assert(
    fc.property(fc.nat({ max: 47 }), fc.constantFrom("a", "Z", "0", "-", "_"), (at, character) => {
      const key = made();
      const place = "sk-sluice-".length + at;
      fc.pre(key[place] !== character);
      const parts = splitApiKey(`${key.slice(0, place)}${character}${key.slice(place + 1)}`);
      expect(parts?.checksum).not.toBe(checksumOf(parts?.body ?? "", hmac));
    }),
  );
});

test.each([
  "",
  "sk-sluice-",
  "sk-sluice-demo-interactive",
  `sk-sluice-${"a".repeat(49)}`,
  `sk-sluice-${"a".repeat(47)}!`,
])("splitApiKey() finds no key in %j", (text) => {
  expect(splitApiKey(text)).toBeUndefined();
});

test.each([
  ["prod", "prod-2"],
  ["prod-2", "prod-3"],
  ["eu-west-9", "eu-west-10"],
  ["x".repeat(64), `${"x".repeat(62)}-2`],
])("the key after %s is %s", (name, next) => {
  expect(nextKeyName(name)).toBe(next);
});
