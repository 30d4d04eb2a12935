import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { RequestId } from "../../src/protocol/ids.ts";
import { CHAT } from "../../src/protocol/operation.ts";
import type { Call } from "../../workers/call.ts";
import { newCallRecord, newTimeline } from "../../workers/call.ts";
import { traceOf } from "../../workers/trace.ts";
import { CallWatch } from "../../workers/call-watch.ts";
import { checkRequest } from "../../workers/check-request.ts";
import type { Reception, ReceiveAnswer } from "../../workers/reception.ts";
import { serveCall } from "../../workers/serve-call.ts";
import { settingsOf } from "../../workers/settings.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, CHAT_PATH } from "./support/gateway.ts";
import { aRow } from "./support/limits.ts";
import { wholeAnswer } from "./support/upstream.ts";

const edge = { env, settings: settingsOf(env) };

async function aCall({ key, modelId }: TestGateway): Promise<Call> {
  const request = new Request(`https://gateway.test${CHAT_PATH}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: modelId, messages: [{ role: "user", content: "Hi" }] }),
  });
  const record = newCallRecord(CHAT, traceOf(new Headers()), Date.now());
  const requestId = RequestId.parse(crypto.randomUUID());
  const checked = await checkRequest(request, { operation: CHAT, requestId, record }, edge);
  const watch = new CallWatch(Date.now() + 10_000);
  return { ...checked, record, watch, timeline: newTimeline(checked, record) };
}

/** A request that finds a place only if no other runs. */
const theOnly = (requestId: RequestId) => ({
  row: aRow({ requestId }),
  limitsMax: { concurrencyMax: 1 },
});

describe("serveCall", () => {
  test.each(["complete", "broken"] as const)(
    "has given everything back by the time the client sees the end of a %s answer",
    async (kind) => {
      const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
      await gateway.upstream.answerWith(wholeAnswer("a"));
      const call = await aCall(gateway);
      const { tenantId } = call.tenant;
      const seen: object[] = [];
      const next = RequestId.parse(crypto.randomUUID());
      const receive = async (): Promise<Reception> => ({
        kind,
        deliver: async () => {
          const answer = await env.TENANTS.getByName(tenantId).acquire(theOnly(next));
          seen.push({ permit: answer.kind, leases: (await gateway.poolStatus()).leases });
        },
      });
      await serveCall(call, receive, edge);
      expect(seen).toEqual([{ permit: "granted", leases: 0 }]);
    },
  );

  test("has given everything back by the time the client sees that there is no answer", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith([{ kind: "reset" }]);
    const call = await aCall(gateway);
    const receive = vi.fn<ReceiveAnswer>();
    await expect(serveCall(call, receive, edge)).rejects.toMatchObject({
      problem: { code: "upstream_error" },
    });
    expect(receive).not.toHaveBeenCalled();
    const next = RequestId.parse(crypto.randomUUID());
    const answer = await env.TENANTS.getByName(call.tenant.tenantId).acquire(theOnly(next));
    expect(answer.kind).toBe("granted");
    expect(await gateway.poolStatus()).toMatchObject({ leases: 0 });
  });

  test("gives everything back when the code that receives an answer throws", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const call = await aCall(gateway);
    const receive = vi.fn<ReceiveAnswer>().mockRejectedValue(new Error("a bug"));
    await expect(serveCall(call, receive, edge)).rejects.toThrow("a bug");
    const next = RequestId.parse(crypto.randomUUID());
    const answer = await env.TENANTS.getByName(call.tenant.tenantId).acquire(theOnly(next));
    expect(answer.kind).toBe("granted");
    expect(await gateway.poolStatus()).toMatchObject({ leases: 0 });
  });

  test("offers nothing for a client who has left already", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    const call = await aCall(gateway);
    call.watch.stop("client-gone");
    await expect(serveCall(call, vi.fn<ReceiveAnswer>(), edge)).rejects.toMatchObject({
      problem: { message: "The client has left" },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0, leases: 0 });
    expect(await gateway.upstream.requests()).toEqual([]);
  });

  test("serves a tenant that has no limit", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const call = await aCall(gateway);
    expect(call.tenant.concurrencyMax).toBeUndefined();
    await serveCall(call, async () => ({ kind: "complete", deliver: async () => {} }), edge);
    expect(call.record).toMatchObject({ attempts: 1 });
  });
});
