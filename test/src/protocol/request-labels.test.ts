import { describe, expect, test } from "vitest";
import { requestLabels } from "../../../src/protocol/request-labels.ts";

describe("requestLabels()", () => {
  test.each([
    ["/v1/chat/completions", "/v1/chat/completions"],
    ["/v1/embeddings", "/v1/embeddings"],
    ["/v1/models", "/v1/models"],
    ["/v1/usage", "/v1/usage"],
    ["/v1/models/some/model", "/v1/models/"],
    ["/admin/v1/pools/secret", "/admin/v1/"],
    ["/internal/pools/local", "/internal/pools/"],
    ["/metrics", "/metrics"],
    ["/v1/chat/completions/", "other"],
    ['/"} 1\nforged', "other"],
    ["/", "other"],
  ])("tells of %s as %s", (path, route) => {
    expect(requestLabels(path, 200, undefined)).toBe(`route="${route}",status="200",code=""`);
  });

  test("tells the status and our code", () => {
    expect(requestLabels("/health", 401, "invalid_api_key")).toBe(
      'route="/health",status="401",code="invalid_api_key"',
    );
  });
});
