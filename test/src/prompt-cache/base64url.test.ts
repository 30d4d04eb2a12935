import { Buffer } from "node:buffer";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { encodeBase64Url } from "../../../src/prompt-cache/base64url.ts";

test("encodeBase64Url() agrees with Node for bytes of any length", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
      expect(encodeBase64Url(bytes)).toBe(Buffer.from(bytes).toString("base64url"));
    }),
  );
});
