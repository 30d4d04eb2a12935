import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  EndpointUrl,
  normalizeApiUrl,
  normalizeEndpointUrl,
} from "../../../src/tenants/endpoint-url.ts";

describe("normalizeEndpointUrl()", () => {
  test.each([
    ["http://127.0.0.1:9101", "http://127.0.0.1:9101"],
    ["http://127.0.0.1:9101/", "http://127.0.0.1:9101"],
    ["HTTPS://GPU-1.Internal:8000/V1//", "https://gpu-1.internal:8000/V1"],
    ["http://[::1]:9101/engines/a", "http://[::1]:9101/engines/a"],
    ["https://gpu", "https://gpu"],
    ["https://gpu:443/", "https://gpu"],
    ["http://gpu:80", "http://gpu"],
    ["http://gpu:443", "http://gpu:443"],
    ["http://gpu_1.pool-2", "http://gpu_1.pool-2"],
  ])("spells %s as %s", (text, spelled) => {
    expect(normalizeEndpointUrl(text)).toBe(spelled);
  });

  test.each([
    "",
    "127.0.0.1:9101",
    "ftp://host",
    "javascript:alert(1)",
    "http://",
    "http://user:secret@host",
    "http://user@host",
    "http://host:70000",
    "http://host:9101?x=1",
    "http://host:9101/#x",
    "http://host/a/../b",
    "http://host\\@evil",
    "http://ho st",
    "http://host/\n",
    "http://-host",
    "http://host..example",
    "http://host:0",
    "http://127.1",
    "http://1.2.3.256",
    "http://[:::]",
    "http://host/%2e%2e/b",
    `http://host/${"a".repeat(512)}`,
  ])("refuses %j", (text) => {
    expect(normalizeEndpointUrl(text)).toBeUndefined();
  });

  test("accepts only what the platform takes for the same URL, and its result is a fixed point", () => {
    const piece = fc.constantFrom(
      ..."http://|@|a|B|.|-|_|0|127.0.0.1|[::1]|:|80|443|99999|/|..|%2e|?|#|\\|~| ".split("|"),
    );
    fc.assert(
      fc.property(
        fc.constantFrom("http://", "HTTPS://"),
        fc.array(piece, { minLength: 1, maxLength: 8 }),
        (scheme, pieces) => {
          const spelled = normalizeEndpointUrl(scheme + pieces.join(""));
          if (spelled === undefined) return;
          expect(normalizeEndpointUrl(spelled)).toBe(spelled);
          expect(new URL(spelled).href.replace(/\/$/, "")).toBe(spelled);
        },
      ),
      { numRuns: 5000 },
    );
  });
});

describe("normalizeApiUrl()", () => {
  test.each([
    ["http://qa:9900/v1", "http://qa:9900"],
    ["http://qa:9900/v1/", "http://qa:9900"],
    ["http://qa:9900", "http://qa:9900"],
    ["https://qa/proxy/v1", "https://qa/proxy"],
    ["https://qa/v1/v1", "https://qa/v1"],
    ["https://qa/v10", "https://qa/v10"],
  ])("spells %s as %s", (text, spelled) => {
    expect(normalizeApiUrl(text)).toBe(spelled);
  });

  test("refuses what is no URL of a server", () => {
    expect(normalizeApiUrl("ftp://qa/v1")).toBeUndefined();
  });
});

describe("EndpointUrl", () => {
  test("takes a URL in its one spelling only", () => {
    expect(EndpointUrl.safeParse("http://host:1").success).toBe(true);
    expect(EndpointUrl.safeParse("http://host:1/").success).toBe(false);
    expect(EndpointUrl.safeParse("HTTP://host:1").success).toBe(false);
  });
});
