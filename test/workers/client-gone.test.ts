import { describe, expect, test, vi } from "vitest";
import { streamThatGoesOn, tokenFrame } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, WAIT } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const HANG = { kind: "hang" } as const;

/**
 * What a client leaves behind, once the pool is idle again: whether its upstream was closed, and
 * how a next request fares that needs its place.
 */
async function whatIsLeft(gateway: TestGateway): Promise<object> {
  await becomesIdle(gateway);
  const closedEarly = await vi.waitFor(async () => {
    const [received] = await gateway.upstream.requests();
    if (received?.closedEarly !== true) throw new Error("The upstream is still open");
    return true;
  }, WAIT);
  await gateway.upstream.answerWith(wholeAnswer("next"));
  return { closedEarly, nextStatus: (await gateway.ask()).status };
}

const NOTHING = { closedEarly: true, nextStatus: 200 };

describe("a client that leaves", () => {
  test("in mid-stream takes its upstream, its slot and its place with it", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const left = new AbortController();
    const response = await gateway.ask({ body: { stream: true }, signal: left.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    left.abort();
    expect(await whatIsLeft(gateway)).toEqual(NOTHING);
  });

  test("by closing its end is noticed at the next write", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(
      streamThatGoesOn(
        ["a"],
        { kind: "gate", name: "more" },
        tokenFrame("b"),
        tokenFrame("c"),
        HANG,
      ),
    );
    const response = await gateway.ask({ body: { stream: true } });
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    await gateway.upstream.openGate("more");
    expect(await whatIsLeft(gateway)).toEqual(NOTHING);
  });

  test("by closing its end is noticed by a heartbeat while its replica is silent", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const response = await gateway.ask({ body: { stream: true } });
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect(await whatIsLeft(gateway)).toEqual(NOTHING);
  });

  test("before the first token takes everything with it", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith([EVENT_STREAM_HEAD, HANG]);
    const left = new AbortController();
    const response = gateway.ask({ body: { stream: true }, signal: left.signal });
    await vi.waitFor(async () => {
      expect(await gateway.upstream.requests()).toHaveLength(1);
    }, WAIT);
    left.abort();
    await expect(response).rejects.toThrow(/abort/);
    expect(await whatIsLeft(gateway)).toEqual(NOTHING);
  });

  test("while it waits for a whole answer takes everything with it", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith([HANG]);
    const left = new AbortController();
    const response = gateway.ask({ signal: left.signal });
    await vi.waitFor(async () => {
      expect(await gateway.upstream.requests()).toHaveLength(1);
    }, WAIT);
    left.abort();
    await expect(response).rejects.toThrow(/abort/);
    expect(await whatIsLeft(gateway)).toEqual(NOTHING);
  });

  test("while it is queued is withdrawn and never reaches a replica", async () => {
    const gateway = await aGateway({
      replica: { hello: { sequencesMax: 1, queueMax: 0 } },
      // Far beyond the test's patience, so that nothing but the withdrawal ends the wait.
      tenant: { targets: { ttft: { percentileRatio: 0.99, limitMs: 60_000 } } },
    });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
    );
    const running = await gateway.ask({ body: { stream: true } });
    const left = new AbortController();
    const queued = gateway.ask({ body: { stream: true }, signal: left.signal });
    await vi.waitFor(async () => {
      expect(await gateway.poolStatus()).toMatchObject({ queued: 1 });
    }, WAIT);
    left.abort();
    await expect(queued).rejects.toThrow(/abort/);
    await vi.waitFor(async () => {
      expect(await gateway.poolStatus()).toMatchObject({ queued: 0, leases: 1 });
    }, WAIT);
    await gateway.upstream.openGate("end");
    await running.text();
    await becomesIdle(gateway);
    expect(await gateway.upstream.requests()).toHaveLength(1);
  });
});
