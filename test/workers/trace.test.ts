import { describe, expect, test, vi } from "vitest";
import { refusal } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle } from "./support/gateway.ts";
import { wholeAnswer } from "./support/upstream.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

/** What the replicas of a gateway were sent as `traceparent`, taken apart. */
async function tracesSent({ upstream }: TestGateway): Promise<string[][]> {
  const requests = await upstream.requests();
  return requests.map(({ headers }) => headers["traceparent"]?.split("-") ?? []);
}

describe("the trace of a request", () => {
  test("is its client's, and the replica's part in it stands below a span of ours", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ headers: { traceparent: `00-${TRACE}-${SPAN}-01` } });
    const [[version, trace, span, flags] = []] = await tracesSent(gateway);
    expect([version, trace, flags]).toEqual(["00", TRACE, "01"]);
    expect(span).toMatch(/^[0-9a-f]{16}$/);
    expect(span).not.toBe(SPAN);
  });

  test.each([
    ["brings none", {}],
    ["brings one of another form", { traceparent: `00-${TRACE}-${SPAN}` }],
    ["brings one of zeros", { traceparent: `00-${"0".repeat(32)}-${SPAN}-01` }],
  ])("is a new one each time where the client %s", async (_what, headers) => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    for (let count = 0; count < 2; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect((await gateway.ask({ headers })).status).toBe(200);
    }
    const traces = (await tracesSent(gateway)).map(([, trace = ""]) => trace);
    expect(new Set(traces).size).toBe(2);
    for (const trace of traces) expect(trace).toMatch(/^[0-9a-f]{32}$/);
    expect(traces).not.toContain(TRACE);
    expect(traces).not.toContain("0".repeat(32));
  });

  test("is one, whichever replica is asked", async () => {
    const gateway = await aGateway({ replicaCount: 2 });
    await gateway.upstream.answerWith(refusal(502, "broken"), wholeAnswer("a"));
    expect((await gateway.ask()).status).toBe(200);
    const [first, second] = await tracesSent(gateway);
    expect(first).toHaveLength(4);
    expect(second).toEqual(first);
  });

  test("is told in the log line and nowhere else", async () => {
    const logged = vi.spyOn(console, "log").mockImplementation(() => {});
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const traceparent = `00-${TRACE}-${SPAN}-01`;
    const response = await gateway.ask({ headers: { traceparent } });
    const refused = await gateway.ask({ headers: { traceparent }, body: { model: "nobody" } });
    await becomesIdle(gateway);
    const lines = logged.mock.calls.map(([line]) => JSON.parse(line));
    expect(lines.map(({ event, traceId }) => [event, traceId])).toEqual([
      ["request", TRACE],
      ["request", TRACE],
    ]);
    const [[, , span] = []] = await tracesSent(gateway);
    expect(lines[0].spanId).toBe(span);
    for (const answer of [response, refused]) {
      const said = JSON.stringify([...answer.headers]) + (await answer.text());
      expect(said).not.toMatch(new RegExp(`${TRACE}|${span}`));
    }
    expect(JSON.stringify(await gateway.poolStatus())).not.toContain(TRACE);
  });
});
