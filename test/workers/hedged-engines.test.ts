import { expect, test, vi } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../src/protocol/engine-kind.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { ROLE_FRAME } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, jsonAnswer, streamedAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
/** Two fifths of it, after which an attempt is late, leave a busy machine time for what is to happen before. */
const TARGET_MS = 5_000;
const HANG = { kind: "hang" } as const;
const STOPPABLE = FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].endsWhenLeft);

/** Two servers that say that they are well, and a tenant whose requests, one at a time, are guaranteed. */
async function aPoolOf(
  engine: ForeignEngine,
  ...answers: readonly (readonly UpstreamStep[])[]
): Promise<TestGateway> {
  const gateway = await aGateway({
    replicaCount: 2,
    pool: { engine },
    tenant: { targets: firstTokenWithin(TARGET_MS), concurrencyMax: 1 },
  });
  const probed = ADAPTERS[engine].probePaths.map((path) => [path, jsonAnswer({})] as const);
  await gateway.upstream.saysOfItself(Object.fromEntries(probed));
  await gateway.upstream.answerWith(...answers);
  return gateway;
}

/** Which of the copies were cut off, once that is settled; each went to a server of its own. */
async function closedEarly({ upstream }: TestGateway, wanted: readonly boolean[]): Promise<void> {
  await vi.waitFor(async () => {
    const requests = await upstream.requests();
    expect(requests.map((request) => request.closedEarly)).toEqual(wanted);
    expect(new Set(requests.map(({ address }) => address)).size).toBe(wanted.length);
  }, WAIT);
}

/** The text of a stream that ended once and well. */
async function answerOf(gateway: TestGateway, asked = gateway.ask(STREAM)): Promise<string> {
  const events = await readEvents(await asked);
  expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
  expect(events.at(-1)).toEqual({ data: "[DONE]" });
  return textOf(events);
}

test.each(STOPPABLE)(
  "a guaranteed request that is late at a server of kind %s is answered by a second one, and the first is left",
  async (engine) => {
    const swallowed = [EVENT_STREAM_HEAD, ROLE_FRAME, HANG];
    const gateway = await aPoolOf(engine, swallowed, streamedAnswer(["second", " copy"]));
    expect(await answerOf(gateway)).toBe("second copy");
    await closedEarly(gateway, [true, false]);
    await becomesIdle(gateway);
    const { hedged, tenants } = await gateway.poolStatus();
    expect(hedged).toBe(1);
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 1, missed: 0 } }]);
    // Its one place is free again.
    await gateway.upstream.answerWith(streamedAnswer(["next"]));
    expect(await answerOf(gateway)).toBe("next");
  },
);

test("one that is late may still be answered by the first server, and then the second is left", async () => {
  const slow = [{ kind: "gate", name: "slow" } as const, ...streamedAnswer(["first"])];
  const gateway = await aPoolOf("vllm", slow, [HANG]);
  const asked = gateway.ask(STREAM);
  await vi.waitFor(async () => expect(await gateway.upstream.requests()).toHaveLength(2), WAIT);
  await gateway.upstream.openGate("slow");
  expect(await answerOf(gateway, asked)).toBe("first");
  await closedEarly(gateway, [false, true]);
  await becomesIdle(gateway);
  const { replicas } = await gateway.poolStatus();
  expect(replicas.map(({ health }) => health)).toEqual(["healthy", "healthy"]);
});

test("a guaranteed request that is late where leaving ends nothing is given up, and never sent twice at once", async () => {
  const gateway = await aPoolOf("openai", [HANG], streamedAnswer(["again"]));
  expect(await answerOf(gateway)).toBe("again");
  await closedEarly(gateway, [true, false]);
  await becomesIdle(gateway);
  expect((await gateway.poolStatus()).hedged).toBe(0);
});
