import { describe, expect, test, vi } from "vitest";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { streamedAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
const GATE = { kind: "gate", name: "go" } as const;
/** So quick that half a second without a token is a stall. */
const QUICK = {
  targets: {
    ttft: { percentileRatio: 0.99, limitMs: 5_000 },
    tpot: { percentileRatio: 0.99, limitMs: 50 },
  },
};
const STALLING = streamThatGoesOn(["One"], GATE, ...streamedAnswer([" two"]).slice(2));

/** Which leases the pool was told stalls of, as often as it was. */
async function stallsOf(gateway: TestGateway): Promise<string[]> {
  const records = await gateway.decisions();
  const calls = records.flatMap((record) => record.calls.map(({ call }) => call));
  return calls.flatMap((call) => (call.kind === "stalled" ? [call.leaseId] : []));
}

async function healthsOf(gateway: TestGateway): Promise<string[]> {
  const { replicas } = await gateway.poolStatus();
  return replicas.map(({ health }) => health);
}

describe("a stream that stalls", () => {
  test("is told to the pool while it lasts, and once, and goes on when its replica does", async () => {
    const gateway = await aGateway({ tenant: QUICK });
    await gateway.upstream.answerWith(STALLING);
    const response = await gateway.ask(STREAM);
    await vi.waitFor(async () => expect(await stallsOf(gateway)).toHaveLength(1), WAIT);
    expect(await healthsOf(gateway)).toEqual(["suspect"]);
    await gateway.upstream.openGate("go");
    const events = await readEvents(response);
    expect(textOf(events)).toBe("One two");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await becomesIdle(gateway);
    expect(await stallsOf(gateway)).toHaveLength(1);
  });

  test("with several others on its replica gets that ejected, never the last one that is well", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant: QUICK });
    await gateway.upstream.answerWith(STALLING);
    // However they are spread, one replica has three of them.
    const responses = await Promise.all(Array.from({ length: 6 }, () => gateway.ask(STREAM)));
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200));
    await vi.waitFor(async () => {
      expect(new Set(await stallsOf(gateway)).size).toBe(6);
      expect((await healthsOf(gateway)).filter((health) => health === "ejected")).toHaveLength(1);
    }, WAIT);
    await gateway.upstream.openGate("go");
    const answers = await Promise.all(responses.map(readEvents));
    expect(answers.map(textOf)).toEqual(answers.map(() => "One two"));
    await becomesIdle(gateway);
  });

  test("is none while tokens come at the promised pace", async () => {
    const gateway = await aGateway({ tenant: QUICK });
    const words = Array.from({ length: 20 }, (_, index) => String(index));
    const [head, ...frames] = streamedAnswer(words);
    const paced = frames.flatMap((frame) => [frame, { kind: "pause", ms: 40 } as const]);
    if (head === undefined) throw new Error("An answer has a head");
    await gateway.upstream.answerWith([head, ...paced]);
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe(words.join(""));
    await becomesIdle(gateway);
    expect(await stallsOf(gateway)).toEqual([]);
  });
});
