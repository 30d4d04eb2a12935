import { createHmac } from "node:crypto";
import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import {
  ACCESS_FRESH_MS,
  ACCESS_LAST_GOOD_MS,
  ACCESS_RETRY_MS,
} from "../../src/tenants/access-cache.ts";
import { encodeBase64Url } from "../../src/prompt-cache/base64url.ts";
import { ModelId } from "../../src/protocol/ids.ts";
import { API_KEY_SECRET_BYTES, makeApiKey } from "../../src/tenants/api-key.ts";
import { KEY_SCOPES } from "../../src/tenants/key-scope.ts";
import type { KeyScope } from "../../src/tenants/key-scope.ts";
import { authenticate, authenticateAdmin, verifyBearer } from "../../workers/auth.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { GatewayError } from "../../workers/gateway-error.ts";
import { requestCounts } from "../../workers/request-counts.ts";
import { settingsOf } from "../../workers/settings.ts";
import type { KeyWish } from "./support/configuration.ts";
import { aLiveConfiguration, applyConfiguration, tearDirectory } from "./support/configuration.ts";

const NOW_MS = 1_800_000_000_000;
const settings = settingsOf(env);
const INFERENCE: KeyScope = "inference";
const WISH = { env, settings, nowMs: NOW_MS, scope: INFERENCE };

afterEach(reset);

/** A key that no other test used: the memory of keys is the isolate's, and so is shared. */
const aKey = () => `sk-test-${crypto.randomUUID()}`;

async function configure(...keys: KeyWish[]): Promise<void> {
  await applyConfiguration(aLiveConfiguration({ keys }));
}

/** The tenant of a key, or the code of the error. */
async function authenticateWith(
  headers: Record<string, string>,
  { nowMs = NOW_MS, mode = settings.mode, scope = INFERENCE } = {},
): Promise<string> {
  try {
    const access = await authenticate(new Headers(headers), {
      env,
      settings: { ...settings, mode },
      nowMs,
      scope,
    });
    return access.tenant.tenantId;
  } catch (error) {
    if (error instanceof GatewayError) return error.problem.code;
    throw error;
  }
}

/** Whether `verifyBearer()` lets a request through, or the code of its error. */
function verdictOn(headers: Record<string, string>): string {
  try {
    verifyBearer(new Headers(headers), "the-secret");
    return "accepted";
  } catch (error) {
    if (error instanceof GatewayError) return error.problem.code;
    throw error;
  }
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe("authenticate()", () => {
  test("finds the tenant, its models and its targets by a key", async () => {
    const key = aKey();
    const configuration = aLiveConfiguration({ keys: [{ key, name: "prod" }] });
    await applyConfiguration(configuration);
    const access = await authenticate(new Headers(bearer(key)), WISH);
    expect(access).toMatchObject({
      tenant: configuration.tenants[0],
      models: configuration.models,
      keyName: "prod",
    });
  });

  test("takes the key as a bearer in any spelling, or as x-api-key", async () => {
    const key = aKey();
    await configure({ key });
    const spellings = [
      { authorization: `Bearer ${key}` },
      { authorization: `bearer   ${key}` },
      { authorization: `BEARER ${key} ` },
      { "x-api-key": key },
      { authorization: "Basic dXNlcjpwYXNz", "x-api-key": key },
    ];
    for (const headers of spellings) expect(await authenticateWith(headers)).toBe("tenant-a");
  });

  test.each([
    {},
    { authorization: "" },
    { authorization: "Bearer" },
    { authorization: "Bearer " },
    { authorization: "Basic dXNlcjpwYXNz" },
    { "x-api-key": "" },
  ])("asks for a key where %j has none", async (headers) => {
    expect(await authenticateWith(headers)).toBe("missing_api_key");
  });

  test.each(["sk-with space", "sk-\u0001", "sk-cl\u00e9", `sk-${"x".repeat(510)}`, "a, b"])(
    "calls junk wrong without asking the Directory: %j",
    async (key) => {
      // Nothing is configured here, so a look-up would say `not_configured`.
      expect(await authenticateWith(bearer(key))).toBe("invalid_api_key");
      expect(await authenticateWith(bearer(aKey()))).toBe("not_configured");
    },
  );

  test("goes on knowing a key of which the Directory says that nothing has changed", async () => {
    const key = aKey();
    await configure({ key });
    for (const nowMs of [0, 1, 2].map((times) => NOW_MS + times * ACCESS_FRESH_MS)) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await authenticateWith(bearer(key), { nowMs })).toBe("tenant-a");
    }
    await configure({ key: aKey() });
    const nowMs = NOW_MS + 3 * ACCESS_FRESH_MS;
    expect(await authenticateWith(bearer(key), { nowMs })).toBe("invalid_api_key");
  });

  test("a key of 512 characters is not junk", async () => {
    const key = "sk-".padEnd(512, aKey());
    await configure({ key });
    expect(await authenticateWith(bearer(key))).toBe("tenant-a");
  });

  test("tells two keys apart that differ in one character", async () => {
    const key = aKey();
    await configure({ key });
    expect(await authenticateWith(bearer(`${key}0`))).toBe("invalid_api_key");
    expect(await authenticateWith(bearer(key.toUpperCase()))).toBe("invalid_api_key");
    expect(await authenticateWith(bearer(key))).toBe("tenant-a");
  });

  test("accepts a key from the instant on that it is valid, and until it expires", async () => {
    const key = aKey();
    await configure({ key, notBeforeAtMs: NOW_MS, expiresAtMs: NOW_MS + 1000 });
    expect(await authenticateWith(bearer(key), { nowMs: NOW_MS - 1 })).toBe("invalid_api_key");
    expect(await authenticateWith(bearer(key), { nowMs: NOW_MS })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { nowMs: NOW_MS + 999 })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { nowMs: NOW_MS + 1000 })).toBe("invalid_api_key");
  });

  test("tells the holder of an expired key what is wrong with it, and never repeats the key", async () => {
    const key = aKey();
    await configure({ key, expiresAtMs: NOW_MS });
    const refused = authenticate(new Headers(bearer(key)), WISH);
    await expect(refused).rejects.toThrow("The API key has expired");
    await expect(refused).rejects.not.toThrow(key);
  });

  test("a demo key opens nothing in production, even if someone configured it", async () => {
    const key = `sk-sluice-demo-${crypto.randomUUID()}`;
    await configure({ key });
    expect(await authenticateWith(bearer(key), { mode: "local" })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { mode: "production" })).toBe("invalid_api_key");
  });
});

describe("authenticate(), by what a key may do", () => {
  test("a key of which nothing is said is for inference and usage, and not for administration", async () => {
    const key = aKey();
    await configure({ key });
    expect(await authenticateWith(bearer(key), { scope: "inference" })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { scope: "usage" })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { scope: "admin" })).toBe("permission_denied");
  });

  test.each(KEY_SCOPES)(
    "a key of scope %s is for nothing else, and its holder is told",
    async (scope) => {
      const key = aKey();
      await configure({ key, scopes: [scope] });
      for (const other of KEY_SCOPES) {
        // oxlint-disable-next-line no-await-in-loop -- one request after the other
        expect(await authenticateWith(bearer(key), { scope: other })).toBe(
          other === scope ? "tenant-a" : "permission_denied",
        );
      }
      const wish = { ...WISH, scope: scope === "admin" ? INFERENCE : ("admin" as const) };
      await expect(authenticate(new Headers(bearer(key)), wish)).rejects.toThrow(
        `expected the scope ${wish.scope}, found ${scope}`,
      );
    },
  );

  test("a key that is limited to models has those, as far as its tenant has them", async () => {
    const [key, foreign] = [aKey(), aKey()];
    const modelIds = [ModelId.parse("another")];
    await configure(
      { key, modelIds: [ModelId.parse("sluice-tiny"), ...modelIds] },
      { key: foreign, modelIds },
    );
    const { models } = await authenticate(new Headers(bearer(key)), WISH);
    expect(models.map(({ modelId }) => modelId)).toEqual(["sluice-tiny"]);
    expect((await authenticate(new Headers(bearer(foreign)), WISH)).models).toEqual([]);
  });
});

describe("authenticate(), in production", () => {
  const production = { ...WISH, settings: { ...settings, mode: "production" as const } };
  const hmac = (text: string) =>
    createHmac("sha256", settings.keyPepper).update(text).digest("base64url");
  const made = () =>
    makeApiKey(encodeBase64Url(crypto.getRandomValues(new Uint8Array(API_KEY_SECRET_BYTES))), hmac);

  test("takes the keys that were made with its pepper", async () => {
    const key = made();
    await configure({ key });
    expect(await authenticate(new Headers(bearer(key)), production)).toMatchObject({
      keyName: "key-1",
    });
  });

  test("calls junk wrong without asking the Directory, whatever its form", async () => {
    const key = made();
    const lastOther = key.endsWith("A") ? "B" : "A";
    const otherPepper = makeApiKey("a".repeat(40), (text) =>
      createHmac("sha256", "another pepper").update(text).digest("base64url"),
    );
    const junk = [
      `${key.slice(0, -1)}${lastOther}`,
      key.slice(0, -1),
      `${key}A`,
      key.replace("sk-sluice-", "sk-sluicf-"),
      `sk-sluice-${"a".repeat(48)}`,
      otherPepper,
      aKey(),
      "sk-sluice-demo-interactive",
    ];
    // Nothing is configured here, so a look-up would say `not_configured`.
    for (const wrong of junk) {
      // oxlint-disable-next-line no-await-in-loop -- one request after the other
      await expect(authenticate(new Headers(bearer(wrong)), production)).rejects.toMatchObject({
        problem: { code: "invalid_api_key" },
      });
    }
    await expect(authenticate(new Headers(bearer(key)), production)).rejects.toMatchObject({
      problem: { code: "not_configured" },
    });
  });
});

/** The code with which `authenticateAdmin()` refuses. */
async function adminVerdictOn(key: string): Promise<unknown> {
  try {
    return await authenticateAdmin(new Headers(bearer(key)), WISH);
  } catch (error) {
    return error instanceof GatewayError ? error.problem.code : error;
  }
}

describe("authenticateAdmin()", () => {
  test("knows the secret of the Worker, also while the Directory is away, and keys of scope admin", async () => {
    const key = aKey();
    expect(await authenticateAdmin(new Headers(bearer(settings.adminKey)), WISH)).toBe("bootstrap");
    await configure({ key, name: "alice", scopes: ["admin"] });
    expect(await authenticateAdmin(new Headers(bearer(key)), WISH)).toBe("tenant-a/alice");
    await tearDirectory();
    expect(await authenticateAdmin(new Headers(bearer(settings.adminKey)), WISH)).toBe("bootstrap");
  });

  test("refuses keys of other scopes, other secrets, and what is nearly the secret", async () => {
    const key = aKey();
    await configure({ key });
    expect(await adminVerdictOn(key)).toBe("permission_denied");
    const { adminKey, replicaSecret } = settings;
    for (const wrong of [replicaSecret, `${adminKey}x`, adminKey.slice(0, -1), aKey()]) {
      // oxlint-disable-next-line no-await-in-loop -- one request after the other
      expect(await adminVerdictOn(wrong)).toBe("invalid_api_key");
    }
  });
});

describe("authenticate(), between two look-ups", () => {
  test("a revocation is in force after five seconds at the latest", async () => {
    const key = aKey();
    await configure({ key });
    expect(await authenticateWith(bearer(key))).toBe("tenant-a");
    await configure();
    const lateMs = NOW_MS + ACCESS_FRESH_MS;
    expect(await authenticateWith(bearer(key), { nowMs: lateMs - 1 })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { nowMs: lateMs })).toBe("invalid_api_key");
  });

  test("a new key is in force after five seconds at the latest, even if it was tried before", async () => {
    const key = aKey();
    await configure();
    expect(await authenticateWith(bearer(key))).toBe("invalid_api_key");
    await configure({ key });
    const lateMs = NOW_MS + ACCESS_FRESH_MS;
    expect(await authenticateWith(bearer(key), { nowMs: lateMs - 1 })).toBe("invalid_api_key");
    expect(await authenticateWith(bearer(key), { nowMs: lateMs })).toBe("tenant-a");
  });

  test("says that nothing is configured, not that the key is wrong, and asks again at once", async () => {
    const key = aKey();
    expect(await authenticateWith(bearer(key))).toBe("not_configured");
    await configure({ key });
    expect(await authenticateWith(bearer(key))).toBe("tenant-a");
  });
});

describe("authenticate(), while the Directory is away", () => {
  let logged: MockInstance<typeof console.error>;
  beforeEach(() => {
    logged = vi.spyOn(console, "error").mockImplementation(() => {});
  });

  test("goes on serving known keys for ten minutes, and says so in the log", async () => {
    const key = aKey();
    await configure({ key });
    expect(await authenticateWith(bearer(key))).toBe("tenant-a");
    await tearDirectory();
    const endsAtMs = NOW_MS + ACCESS_LAST_GOOD_MS;
    expect(await authenticateWith(bearer(key), { nowMs: endsAtMs - 1 })).toBe("tenant-a");
    expect(await authenticateWith(bearer(key), { nowMs: endsAtMs })).toBe("not_configured");
    // An object of an earlier test may have its own last word meanwhile.
    const ofOthers = /"event":"pool-memory"/;
    expect(logged.mock.calls.flat().filter((line) => !ofOthers.test(line))).toEqual([
      expect.stringMatching(/"event":"directory-away".*"isServed":true/),
      expect.stringMatching(/"event":"directory-away".*"isServed":false/),
    ]);
    expect(logged.mock.calls.flat().join("\n")).not.toContain(key);
  });

  test("counts for the metrics whom it has served so, and whom it could not", async () => {
    const counted = vi.spyOn(requestCounts, "countStaleAccess");
    const key = aKey();
    await configure({ key });
    await authenticateWith(bearer(key));
    await tearDirectory();
    expect(counted).not.toHaveBeenCalled();
    const lateMs = NOW_MS + ACCESS_FRESH_MS;
    expect(await authenticateWith(bearer(key), { nowMs: lateMs })).toBe("tenant-a");
    expect(counted).toHaveBeenCalledTimes(1);
    expect(await authenticateWith(bearer(aKey()), { nowMs: lateMs })).toBe("not_configured");
    expect(counted).toHaveBeenCalledTimes(2);
  });

  test("asks once a second, not once a request", async () => {
    const key = aKey();
    await configure({ key });
    await authenticateWith(bearer(key));
    await tearDirectory();
    const staleMs = NOW_MS + ACCESS_FRESH_MS;
    for (const nowMs of [staleMs, staleMs + 1, staleMs + ACCESS_RETRY_MS - 1]) {
      // oxlint-disable-next-line no-await-in-loop -- one request after the other
      expect(await authenticateWith(bearer(key), { nowMs })).toBe("tenant-a");
    }
    // What else was to be told to the Directory meanwhile has lines of its own.
    const away = logged.mock.calls.filter(([line]) => String(line).includes('"directory-away"'));
    expect(away).toHaveLength(1);
  });

  test("tells a key that it never met to come again, not that it is wrong", async () => {
    await configure();
    await tearDirectory();
    const refused = authenticate(new Headers(bearer(aKey())), WISH);
    await expect(refused).rejects.toMatchObject({
      problem: { code: "not_configured", retryAfterMs: 1000 },
    });
  });

  test("does not wait long for a Directory that does not answer", async () => {
    const key = aKey();
    await configure({ key });
    await authenticateWith(bearer(key));
    let isBlocked = false;
    const blocked = runInDurableObject(env.DIRECTORY.getByName(DIRECTORY_NAME), (_object, state) =>
      state.blockConcurrencyWhile(() => {
        isBlocked = true;
        return scheduler.wait(3_000);
      }),
    );
    await vi.waitUntil(() => isBlocked);
    const nowMs = NOW_MS + ACCESS_FRESH_MS;
    expect(await authenticateWith(bearer(key), { nowMs })).toBe("tenant-a");
    // The pools of tests before this one may have a last word.
    const lines = logged.mock.calls
      .flat()
      .filter((line) => !line.includes('"event":"pool-memory"'));
    expect(lines).toEqual([
      '{"level":"error","event":"directory-away","reason":"Error: No answer within 2000 ms","isServed":true}',
    ]);
    await blocked;
  });
});

describe("verifyBearer()", () => {
  test("accepts the very secret and nothing else", () => {
    expect(verdictOn(bearer("the-secret"))).toBe("accepted");
    for (const wrong of ["the-secre", "the-secret!", "THE-SECRET", "x"]) {
      expect(verdictOn(bearer(wrong))).toBe("invalid_api_key");
    }
    expect(verdictOn({})).toBe("missing_api_key");
  });
});
