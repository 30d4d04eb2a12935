import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import {
  ACCESS_FRESH_MS,
  ACCESS_LAST_GOOD_MS,
  ACCESS_RETRY_MS,
} from "../../src/tenants/access-cache.ts";
import { authenticate, verifyBearer } from "../../workers/auth.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { GatewayError } from "../../workers/gateway-error.ts";
import { settingsOf } from "../../workers/settings.ts";
import type { KeyWish } from "./support/configuration.ts";
import { aLiveConfiguration, applyConfiguration, tearDirectory } from "./support/configuration.ts";

const NOW_MS = 1_800_000_000_000;
const settings = settingsOf(env);

afterEach(reset);

/** A key that no other test used: the memory of keys is the isolate's, and so is shared. */
const aKey = () => `sk-test-${crypto.randomUUID()}`;

async function configure(...keys: KeyWish[]): Promise<void> {
  await applyConfiguration(aLiveConfiguration({ keys }));
}

/** The tenant of a key, or the code of the error. */
async function authenticateWith(
  headers: Record<string, string>,
  { nowMs = NOW_MS, mode = settings.mode } = {},
): Promise<string> {
  try {
    const access = await authenticate(new Headers(headers), env, { ...settings, mode }, nowMs);
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
    const access = await authenticate(new Headers(bearer(key)), env, settings, NOW_MS);
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
    const refused = authenticate(new Headers(bearer(key)), env, settings, NOW_MS);
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
    expect(logged.mock.calls.flat()).toEqual([
      expect.stringMatching(/"event":"directory-away".*"isServed":true/),
      expect.stringMatching(/"event":"directory-away".*"isServed":false/),
    ]);
    expect(logged.mock.calls.flat().join("\n")).not.toContain(key);
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
    expect(logged).toHaveBeenCalledTimes(1);
  });

  test("tells a key that it never met to come again, not that it is wrong", async () => {
    await configure();
    await tearDirectory();
    const refused = authenticate(new Headers(bearer(aKey())), env, settings, NOW_MS);
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
    expect(logged.mock.calls.flat()).toEqual([expect.stringContaining("no answer in time")]);
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
