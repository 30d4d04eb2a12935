import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { ACCESS_FRESH_MS } from "../../src/tenants/access-cache.ts";
import { FAILURES_BURST } from "../../src/tenants/address-guard.ts";
import { authenticate } from "../../workers/auth.ts";
import { requestCounts } from "../../workers/request-counts.ts";
import { settingsOf } from "../../workers/settings.ts";
import { issueKey, tellAdmin } from "../workers/support/admin.ts";
import { aGateway, CHAT_PATH, fetchGateway } from "../workers/support/gateway.ts";
import { wholeAnswer } from "../workers/support/upstream.ts";

/** Of documentation, and another one each time: the guard is the isolate's, and so is shared. */
const anAddress = (): string => {
  const [a = 0, b = 0] = crypto.getRandomValues(new Uint16Array(2));
  return `2001:db8:${a.toString(16)}:${b.toString(16)}::1`;
};

function chatWith(key: string | undefined, address: string): Promise<Response> {
  const headers = {
    "cf-connecting-ip": address,
    "content-type": "application/json",
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
  };
  return fetchGateway(CHAT_PATH, { method: "POST", headers, body: "{}" });
}

const wishAt = (nowMs: number) =>
  ({ env, settings: settingsOf(env), nowMs, scope: "inference" }) as const;

const aGuess = () => `sk-sluice-guess-${crypto.randomUUID()}`;

/** What was counted of earlier requests goes to the Directory once a second: that is nobody's asking for this one. */
function holdCounts(): void {
  vi.spyOn(requestCounts, "send").mockResolvedValue();
}

async function failUntilBlocked(address: string): Promise<void> {
  for (let count = 0; count < FAILURES_BURST; count += 1) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect((await chatWith(aGuess(), address)).status).toBe(401);
  }
}

describe("an address that guesses keys", () => {
  test("is told to wait after so many, and the Directory is not asked for it any more", async () => {
    await aGateway();
    const address = anAddress();
    await failUntilBlocked(address);
    holdCounts();
    const asked = vi.spyOn(env.DIRECTORY, "getByName");
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const response = await chatWith(aGuess(), address);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await response.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
    expect((await chatWith(undefined, address)).status).toBe(429);
    // Neither an object nor the log has work with it; that it was there the metrics tell.
    expect(asked).not.toHaveBeenCalled();
    expect(log).not.toHaveBeenCalled();
    expect((await chatWith(aGuess(), anAddress())).status).toBe(401);
    expect(asked).toHaveBeenCalled();
  });

  test("does not shut out those behind it whose keys are known here", async () => {
    const { key, upstream, ask } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    const address = anAddress();
    expect((await ask({ headers: { "cf-connecting-ip": address } })).status).toBe(200);
    await failUntilBlocked(address);
    expect((await chatWith(aGuess(), address)).status).toBe(429);
    expect((await ask({ key, headers: { "cf-connecting-ip": address } })).status).toBe(200);
  });

  test("does not shut them out when what is known of their keys is to be asked again", async () => {
    const { key, tenantId } = await aGateway();
    const address = anAddress();
    const headers = new Headers({ authorization: `Bearer ${key}`, "cf-connecting-ip": address });
    const nowMs = Date.now();
    await authenticate(headers, wishAt(nowMs));
    await failUntilBlocked(address);
    const laterMs = nowMs + ACCESS_FRESH_MS;
    const { tenant } = await authenticate(headers, wishAt(laterMs));
    expect(tenant.tenantId).toBe(tenantId);
    const unmet = new Headers({ authorization: `Bearer ${aGuess()}`, "cf-connecting-ip": address });
    await expect(authenticate(unmet, wishAt(laterMs))).rejects.toMatchObject({
      problem: { code: "rate_limit_exceeded" },
    });
  });

  test("does not shut out a key that was made here, whether anybody has met it or not", async () => {
    const { tenantId, upstream, ask } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    const key = await issueKey(tenantId, { name: "new" });
    const address = anAddress();
    await failUntilBlocked(address);
    expect((await chatWith(aGuess(), address)).status).toBe(429);
    expect((await ask({ key, headers: { "cf-connecting-ip": address } })).status).toBe(200);
  });

  test("is not one that has a key which is valid no more: it is told so every time", async () => {
    const { tenantId } = await aGateway();
    const key = await issueKey(tenantId, { name: "old" });
    await tellAdmin(`/tenants/${tenantId}/keys/old`, { method: "DELETE" });
    const address = anAddress();
    for (let count = 0; count < 2 * FAILURES_BURST; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await chatWith(key, address)).status).toBe(401);
    }
    expect((await chatWith(aGuess(), address)).status).toBe(401);
  });

  test("and has none that we are told of leaves a few lines in the log, and no more", async () => {
    await aGateway();
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const guesses = Array.from({ length: 100 }, () => chatWith(aGuess(), ""));
    for (const { status } of await Promise.all(guesses)) expect(status).toBe(401);
    expect(log.mock.calls.length).toBeLessThan(50);
  });

  test("is one client however many addresses of its own it uses", async () => {
    await aGateway();
    const block = anAddress().replace("::1", "");
    for (let count = 0; count < FAILURES_BURST; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await chatWith(aGuess(), `${block}:${count}::1`);
    }
    expect((await chatWith(aGuess(), `${block}:ffff::2`)).status).toBe(429);
  });

  test("is turned away at the admin's and the replicas' doors as well, and the right key is not", async () => {
    await aGateway();
    const address = anAddress();
    const knock = (path: string, key: string): Promise<Response> =>
      fetchGateway(path, {
        headers: { "cf-connecting-ip": address, authorization: `Bearer ${key}` },
      });
    for (let count = 0; count < FAILURES_BURST; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await knock("/admin/v1/status", "wrong")).status).toBe(401);
    }
    for (const path of ["/admin/v1/status", "/metrics", "/internal/pools/local"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await knock(path, "wrong")).status).toBe(429);
    }
    expect((await knock("/admin/v1/status", "sluice-local-admin-key-of-the-tests")).status).toBe(
      200,
    );
  });
});

describe("a request without a key", () => {
  test("reaches no object, whatever its route is", async () => {
    holdCounts();
    const asked = ["DIRECTORY", "TENANTS", "POOLS"] as const;
    const spies = asked.map((name) => vi.spyOn(env[name], "getByName"));
    expect((await fetchGateway(CHAT_PATH, { method: "POST", body: "{}" })).status).toBe(401);
    for (const path of [
      "/v1/models",
      "/v1/usage",
      "/v1/slo",
      "/metrics",
      "/admin/v1/slo",
      "/nowhere",
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect([401, 404]).toContain((await fetchGateway(path)).status);
    }
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
  });
});
