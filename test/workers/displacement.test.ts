import { describe, expect, test, vi } from "vitest";
import { POOL_LIMITS } from "../../src/pool/pool-limits.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, streamedAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const gate = (name: string): UpstreamStep => ({ kind: "gate", name });

/**
 * A pool with one slot of which everything is guaranteed to the tenant and nothing to the other one,
 * whose first token may take so long.
 */
async function aContestedGateway(otherTtftMs: number): Promise<TestGateway> {
  const gateway = await aGateway({
    replica: { hello: { sequencesMax: 1, queueMax: 0 } },
    tenant: { targets: firstTokenWithin(1_500) },
    otherTenant: { targets: firstTokenWithin(otherTtftMs) },
    guaranteedRatios: [0.9, 0],
  });
  // A pool that has just begun gives nothing yet to those to whom nothing is guaranteed.
  await scheduler.wait(POOL_LIMITS.relearnMs);
  return gateway;
}

/** Has the other tenant ask, and waits until its replica has the request. */
async function otherAsks(gateway: TestGateway): Promise<{ readonly response: Promise<Response> }> {
  const response = gateway.ask({ ...STREAM, key: gateway.otherKey });
  await vi.waitFor(async () => {
    expect(await gateway.upstream.requests()).toHaveLength(1);
  }, WAIT);
  return { response };
}

describe("a request beyond its guarantee that has no token yet", () => {
  test("gives its slot to one within it, and is answered by one stream when there is room again", async () => {
    const gateway = await aContestedGateway(30_000);
    await gateway.upstream.answerWith(
      [EVENT_STREAM_HEAD, gate("never"), ...streamedAnswer(["given up"]).slice(1)],
      streamedAnswer(["guaranteed"]),
      streamedAnswer(["again"]),
    );
    const { response } = await otherAsks(gateway);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("guaranteed");
    const events = await readEvents(await response);
    expect(textOf(events)).toBe("again");
    expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);

    await becomesIdle(gateway);
    const status = await gateway.poolStatus();
    expect(status).toMatchObject({ displaced: 1, dispatched: 3 });
    const other = status.tenants.find(({ tenantId }) => tenantId !== gateway.tenantId);
    expect(other?.counts).toMatchObject({ offered: 1, offeredInProfile: 0, admitted: 1, good: 1 });
    const requests = await gateway.upstream.requests();
    expect(requests.map(({ closedEarly }) => closedEarly)).toEqual([true, false, false]);
  });

  test("is refused as beyond its guarantee when its time is over before there is room again", async () => {
    const gateway = await aContestedGateway(1_500);
    await gateway.upstream.answerWith(
      [EVENT_STREAM_HEAD, gate("never")],
      streamThatGoesOn(["guaranteed"], gate("end"), ...streamedAnswer([]).slice(2)),
    );
    const { response } = await otherAsks(gateway);
    const guaranteed = await gateway.ask(STREAM);
    const refused = await response;
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(await refused.json()).toMatchObject({
      error: {
        code: "rate_limit_exceeded",
        type: "rate_limit_error",
        message: expect.stringMatching(/^The tenant has used what is guaranteed to it/),
      },
    });
    await gateway.upstream.openGate("end");
    expect(textOf(await readEvents(guaranteed))).toBe("guaranteed");
    await becomesIdle(gateway);
    const { tenants } = await gateway.poolStatus();
    const other = tenants.find(({ tenantId }) => tenantId !== gateway.tenantId);
    expect(other?.counts).toMatchObject({ offered: 1, admitted: 1, missedBy: { failed: 1 } });
  });
});

describe("a request beyond its guarantee that streams already", () => {
  test("keeps its slot, and who cannot wait so long is refused as by our fault", async () => {
    const gateway = await aContestedGateway(30_000);
    await gateway.upstream.answerWith(
      streamThatGoesOn(["mine"], gate("end"), ...streamedAnswer([]).slice(2)),
    );
    const { response } = await otherAsks(gateway);
    const running = await response;
    const refused = await gateway.ask(STREAM);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(await refused.json()).toMatchObject({
      error: {
        code: "server_is_overloaded",
        message: expect.stringMatching(/^No replica came free in time/),
      },
    });
    await gateway.upstream.openGate("end");
    expect(textOf(await readEvents(running))).toBe("mine");
    await becomesIdle(gateway);
    expect(await gateway.poolStatus()).toMatchObject({ displaced: 0 });
    expect(await gateway.upstream.requests()).toHaveLength(1);
  });
});
