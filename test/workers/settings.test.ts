import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Problem } from "../../src/protocol/errors.ts";
import edge from "../../workers/edge.ts";
import type { Env } from "../../workers/env.ts";
import { GatewayError } from "../../workers/gateway-error.ts";
import { settingsOf } from "../../workers/settings.ts";

const SECRETS = {
  SLUICE_KEY_PEPPER: "pZ0eY8nUq2vB5xK1mT7rW4cJ9sD6hF3a",
  SLUICE_CACHE_MASTER: "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urqwA",
  SLUICE_ADMIN_KEY: "aZ0eY8nUq2vB5xK1mT7rW4cJ9sD6hF3a",
  SLUICE_REPLICA_SECRET: "rZ0eY8nUq2vB5xK1mT7rW4cJ9sD6hF3a",
};
const BINDINGS = { POOLS: env.POOLS, TENANTS: env.TENANTS, DIRECTORY: env.DIRECTORY };
const PRODUCTION: Env = { ...BINDINGS, ...SECRETS, SLUICE_MODE: "production" };

/** What is wrong with an environment; undefined if nothing is. */
function problemOf(environment: Env): Problem | undefined {
  try {
    settingsOf(environment);
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error.problem;
    throw error;
  }
}

const secretOf = (secret: string | undefined, mode: "local" | "production" = "production") => {
  const environment = { ...PRODUCTION, SLUICE_MODE: mode, GPU_POOL_TOKEN: secret };
  return settingsOf(environment).poolSecretOf("GPU_POOL_TOKEN");
};

const bindingOf = (binding: unknown, mode: "local" | "production") => {
  const environment = { ...PRODUCTION, SLUICE_MODE: mode, GPU_VPC: binding };
  return settingsOf(environment).bindingOf("GPU_VPC");
};

describe("the binding of a pool", () => {
  test("that is not there is one in production, and the usual way on a developer's machine", () => {
    expect(bindingOf(undefined, "production")).toEqual({ kind: "faulty", reason: "is not bound" });
    expect(bindingOf(undefined, "local")).toEqual({ kind: "known" });
  });

  test.each([["a text"], [{}], [{ fetch: "no function" }], [null]])(
    "is none where it has no fetch: %j",
    (binding) => {
      for (const mode of ["production", "local"] as const) {
        expect(bindingOf(binding, mode)).toMatchObject({ kind: "faulty" });
      }
    },
  );
});

describe("settingsOf()", () => {
  test("gives the same settings for the same environment", () => {
    expect(settingsOf(PRODUCTION)).toBe(settingsOf(PRODUCTION));
    expect(settingsOf(PRODUCTION)).toMatchObject({
      mode: "production",
      keyPepper: SECRETS.SLUICE_KEY_PEPPER,
      adminKey: SECRETS.SLUICE_ADMIN_KEY,
      replicaSecret: SECRETS.SLUICE_REPLICA_SECRET,
    });
  });

  test("decodes the cache master to its 32 bytes, padded or not", () => {
    const padded = `${"-_".repeat(21)}8=`;
    expect(settingsOf(env).cacheMaster).toEqual(new Uint8Array(32).fill(7));
    expect(settingsOf({ ...PRODUCTION, SLUICE_CACHE_MASTER: padded }).cacheMaster).toHaveLength(32);
  });

  test("is in production unless told otherwise", () => {
    expect(settingsOf({ ...BINDINGS, ...SECRETS })).toMatchObject({ mode: "production" });
  });

  test.each(Object.keys(SECRETS))("names %s when it is missing, in every mode", (name) => {
    const { [name]: _, ...rest } = SECRETS as Record<string, string>;
    for (const SLUICE_MODE of ["local", "production"]) {
      expect(problemOf({ ...BINDINGS, ...rest, SLUICE_MODE })).toEqual({
        code: "not_configured",
        message: `The gateway is not configured to serve: ${name} is missing`,
      });
    }
  });

  test("names everything that is missing at once", () => {
    const message = problemOf({ ...BINDINGS })?.message ?? "";
    for (const name of Object.keys(SECRETS)) expect(message).toContain(`${name} is missing`);
  });

  test("names what is weak beside what is missing, all at once", () => {
    const { SLUICE_ADMIN_KEY: _, ...rest } = PRODUCTION;
    const message = problemOf({
      ...rest,
      SLUICE_KEY_PEPPER: "sluice-local-key-pepper-of-the-tests",
      SLUICE_REPLICA_SECRET: "short",
      SLUICE_CACHE_MASTER: "B".repeat(43),
    })?.message;
    for (const fault of [
      "SLUICE_ADMIN_KEY is missing",
      "SLUICE_KEY_PEPPER is a published example",
      "SLUICE_REPLICA_SECRET must have 32 characters or more",
      "SLUICE_CACHE_MASTER is not random",
    ]) {
      expect(message).toContain(fault);
    }
  });

  test("names each secret once, with all that is wrong with it", () => {
    const same = "a".repeat(43);
    const names = Object.keys(SECRETS);
    expect(
      problemOf({ ...PRODUCTION, ...Object.fromEntries(names.map((name) => [name, same])) })
        ?.message,
    ).toBe(
      `The gateway is not configured to serve: ${names
        .map((name) => `${name} is used for two purposes and is not random`)
        .join("; ")}`,
    );
    expect(problemOf({ ...PRODUCTION, SLUICE_KEY_PEPPER: "aaa" })?.message).toBe(
      "The gateway is not configured to serve: SLUICE_KEY_PEPPER must have 32 characters or more and is not random",
    );
  });

  test("tells what is wrong with a pool's secret, and takes whatever its servers take", () => {
    expect(secretOf("token")).toEqual({ kind: "known", secret: "token" });
    expect(secretOf(undefined)).toEqual({ kind: "faulty", reason: "is missing" });
    expect(secretOf("")).toEqual({ kind: "faulty", reason: "is missing" });
    expect(secretOf("a b")).toMatchObject({ kind: "faulty" });
    expect(secretOf("sluice-local-token")).toEqual({
      kind: "faulty",
      reason: "is a published example",
    });
    expect(secretOf("sluice-local-token", "local")).toMatchObject({ kind: "known" });
  });

  test.each([
    [
      "SLUICE_ADMIN_KEY",
      "change-me-change-me-change-me-change-me".replaceAll("-", ""),
      "is not random",
    ],
    ["SLUICE_ADMIN_KEY", "short", "must have 32 characters or more"],
    ["SLUICE_ADMIN_KEY", "with spaces that no header keeps as it is", "must be printable ASCII"],
    ["SLUICE_KEY_PEPPER", "31-characters-are-one-too-few-x", "must have 32 characters or more"],
    ["SLUICE_CACHE_MASTER", "AAAA", "must be 32 bytes as base64url"],
    ["SLUICE_CACHE_MASTER", "+/".repeat(21) + "8", "must be 32 bytes as base64url"],
    ["SLUICE_CACHE_MASTER", "A".repeat(43), "is not random"],
    ["SLUICE_ADMIN_KEY", "sluice-local-admin-key-of-the-tests", "is a published example"],
    ["SLUICE_ADMIN_KEY", SECRETS.SLUICE_REPLICA_SECRET, "is used for two purposes"],
    ["SLUICE_MODE", "staging", "must be local or production"],
  ])("refuses %s = %j in production and does not repeat it", (name, value, reason) => {
    const problem = problemOf({ ...PRODUCTION, [name]: value });
    expect(problem?.code).toBe("not_configured");
    expect(problem?.message).toContain(`${name} ${reason}`);
    expect(problem?.message).not.toContain(value);
  });

  test("allows published secrets in local mode, where nobody else can come in", () => {
    expect(problemOf(env)).toBeUndefined();
  });
});

test("a Worker without its secrets serves nothing and says which one it lacks", async () => {
  const { SLUICE_ADMIN_KEY: _, ...rest } = SECRETS;
  for (const path of ["/health", "/v1/models", "/admin/v1/status", "/internal/pools/local"]) {
    const response = await edge.fetch(
      new Request(`https://gateway.test${path}`, { headers: { authorization: "Bearer sk-any" } }),
      { ...BINDINGS, ...rest },
      createExecutionContext(),
    );
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({
      error: { code: "not_configured", message: expect.stringContaining("SLUICE_ADMIN_KEY") },
    });
  }
});
