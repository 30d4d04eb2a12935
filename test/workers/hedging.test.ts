import { describe, expect, test, vi } from "vitest";
import { PendingHeads } from "../../workers/pending-heads.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { refusal, tokenFrame } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, textOf, WAIT } from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, streamedAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
/**
 * Four tenths of it, after which an attempt is late, leave a busy machine time for what is to happen before. By then the
 * client has had its head: it is held for two seconds.
 */
const TARGET_MS = 6_000;
const TENANT = { targets: firstTokenWithin(TARGET_MS), concurrencyMax: 1 };
const HANG = { kind: "hang" } as const;
const gate = (name: string) => ({ kind: "gate", name }) as const;

/** A gateway whose replicas have taken what was sent to them: they may have begun it. */
interface BusyGateway extends TestGateway {
  /** Waits until so many attempts have been sent, and lets the replicas say that these have come there. */
  readonly sees: (attempts: number) => Promise<void>;
}

async function aBusyGateway(
  answers: readonly (readonly UpstreamStep[])[],
  wish: GatewayWish = {},
): Promise<BusyGateway> {
  const gateway = await aGateway({ replicaCount: 3, tenant: TENANT, ...wish });
  await gateway.upstream.answerWith(...answers);
  const sees = async (attempts: number): Promise<void> => {
    const requests = await vi.waitFor(async () => {
      const received = await gateway.upstream.requests();
      expect(received).toHaveLength(attempts);
      return received;
    }, WAIT);
    const [epoch = "", number] = requests.at(-1)?.headers["x-gw-dispatch"]?.split(".") ?? [];
    const lastDispatch = { epoch, number: Number(number) };
    for (const replica of gateway.replicas) replica.report({ lastDispatch });
  };
  return { ...gateway, sees };
}

/** How each attempt was settled with the pool, by the order in which they were sent. */
async function outcomesOf(gateway: TestGateway) {
  await becomesIdle(gateway);
  const records = await gateway.decisions();
  const calls = records.flatMap((record) => record.calls);
  const leaseIds = calls.flatMap(({ effects }) =>
    effects.flatMap((effect) =>
      effect.kind === "dispatch" || effect.kind === "hedge" ? [effect.leaseId] : [],
    ),
  );
  return leaseIds.map((leaseId) => {
    const settled = calls.flatMap(({ call }) =>
      call.kind === "settle" && call.leaseId === leaseId ? [call.outcome] : [],
    );
    expect(settled).toHaveLength(1);
    return settled[0];
  });
}

/** Which attempts were cut off, by the order in which they came to a replica. */
async function closedEarly({ upstream }: TestGateway, wanted: readonly boolean[]): Promise<void> {
  await vi.waitFor(async () => {
    const requests = await upstream.requests();
    expect(requests.map((request) => request.closedEarly)).toEqual(wanted);
    expect(new Set(requests.map(({ address }) => address)).size).toBe(wanted.length);
  }, WAIT);
}

async function hedgesOf(gateway: TestGateway): Promise<number> {
  return (await gateway.poolStatus()).hedged;
}

/** An answer whose first token and whose rest come when they are let. */
const answerInTwo = (word: string) => [
  EVENT_STREAM_HEAD,
  gate("both"),
  tokenFrame(word),
  gate("rest"),
  ...streamedAnswer([word, word]).slice(2),
];

/** A refusal that comes when it is let. */
const failing = (name: string) => [gate(name), ...refusal(502, "no")];

describe("a stream whose first token is late on a replica that may have begun it", () => {
  test("is answered by a second replica in time, and the first one is stopped", async () => {
    const gateway = await aBusyGateway([[HANG], streamedAnswer(["second", " copy"])]);
    const askedAtMs = Date.now();
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    const events = await readEvents(await asked);
    expect(Date.now() - askedAtMs).toBeLessThan(TARGET_MS);
    expect(textOf(events)).toBe("second copy");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    await closedEarly(gateway, [true, false]);
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "upstream-failed" },
      { kind: "completed", outputTokens: 2, attainment: { kind: "good" } },
    ]);
    const { tenants, hedged } = await gateway.poolStatus();
    expect(hedged).toBe(1);
    expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, good: 1, missed: 0 } }]);
    // The tenant's one place is free again, so it was taken once.
    await gateway.upstream.answerWith(streamedAnswer(["next"]));
    expect((await gateway.ask(STREAM)).status).toBe(200);
  });

  test("may still be answered by the first, which costs the second no reputation", async () => {
    const first = [EVENT_STREAM_HEAD, gate("first"), ...streamedAnswer(["first"]).slice(1)];
    const gateway = await aBusyGateway([first, [HANG]]);
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    await gateway.upstream.openGate("first");
    expect(textOf(await readEvents(await asked))).toBe("first");
    await closedEarly(gateway, [false, true]);
    expect(await outcomesOf(gateway)).toMatchObject([{ kind: "completed" }, { kind: "overtaken" }]);
    const { replicas } = await gateway.poolStatus();
    expect(replicas.map(({ health }) => health)).toEqual(["healthy", "healthy", "healthy"]);
  });

  test("is answered once where both begin at the same time", async () => {
    const gateway = await aBusyGateway([answerInTwo("one"), answerInTwo("two")]);
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    await gateway.upstream.openGate("both");
    const response = await asked;
    await gateway.upstream.openGate("rest");
    const events = await readEvents(response);
    expect(["oneoneone", "twotwotwo"]).toContain(textOf(events));
    expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
    const outcomes = await outcomesOf(gateway);
    expect(outcomes.filter((outcome) => outcome?.kind === "completed")).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome?.attainment !== undefined)).toHaveLength(1);
  });

  test("goes on at the first where the second fails", async () => {
    const first = [gate("first"), ...streamedAnswer(["first"])];
    const gateway = await aBusyGateway([first, refusal(503, "loading"), [HANG]], {
      replicaCount: 2,
    });
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    await vi.waitFor(async () => {
      expect((await gateway.poolStatus()).leases).toBe(1);
    }, WAIT);
    await gateway.upstream.openGate("first");
    expect(textOf(await readEvents(await asked))).toBe("first");
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "completed" },
      { kind: "upstream-refused" },
    ]);
  });

  test("goes on at the second where the first fails", async () => {
    const second = [gate("second"), ...streamedAnswer(["second"])];
    const gateway = await aBusyGateway([[gate("first"), { kind: "reset" }], second]);
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    await gateway.upstream.openGate("first");
    await vi.waitFor(async () => expect((await gateway.poolStatus()).leases).toBe(1), WAIT);
    await gateway.upstream.openGate("second");
    expect(textOf(await readEvents(await asked))).toBe("second");
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "upstream-failed" },
      { kind: "completed" },
    ]);
  });

  test("is tried once more, and no fourth time, where both fail", async () => {
    const gateway = await aBusyGateway([failing("both"), failing("both"), refusal(503, "no")], {
      replicaCount: 4,
    });
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    await gateway.upstream.openGate("both");
    expect(await readEvents(await asked)).toMatchObject([
      { event: "error", data: { error: { code: "server_is_overloaded" } } },
    ]);
    const outcomes = await outcomesOf(gateway);
    expect(outcomes.map((outcome) => outcome?.attainment?.kind)).toEqual([
      undefined,
      undefined,
      "missed",
    ]);
    expect(await gateway.upstream.requests()).toHaveLength(3);
  });

  test("ends with what the second says of the request itself", async () => {
    const error = { message: "too long", code: "context_length_exceeded", type: "", param: null };
    const gateway = await aBusyGateway([[HANG], refusal(400, { error })]);
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    expect(await readEvents(await asked)).toMatchObject([
      { event: "error", data: { error: { code: "context_length_exceeded", message: "too long" } } },
    ]);
    await closedEarly(gateway, [true, false]);
    expect(await outcomesOf(gateway)).toEqual([
      { kind: "overtaken" },
      expect.objectContaining({ kind: "upstream-refused" }),
    ]);
  });

  test("is given to a third where both are silent, and stops both", async () => {
    const gateway = await aBusyGateway([[HANG], [HANG], streamedAnswer(["third"])]);
    const askedAtMs = Date.now();
    const asked = gateway.ask(STREAM);
    await gateway.sees(1);
    await gateway.sees(2);
    expect(textOf(await readEvents(await asked))).toBe("third");
    expect(Date.now() - askedAtMs).toBeLessThan(TARGET_MS);
    await closedEarly(gateway, [true, true, false]);
    expect(await outcomesOf(gateway)).toMatchObject([
      { kind: "upstream-failed" },
      { kind: "upstream-failed" },
      { kind: "completed" },
    ]);
    expect(await hedgesOf(gateway)).toBe(1);
  });

  test("leaves nothing behind at either when its client leaves", async () => {
    const gateway = await aBusyGateway([[HANG], [HANG]], { replicaCount: 2 });
    const left = new AbortController();
    const asked = gateway.ask({ ...STREAM, signal: left.signal }).catch(() => undefined);
    await gateway.sees(1);
    await gateway.sees(2);
    left.abort();
    await asked;
    await closedEarly(gateway, [true, true]);
    const outcomes = await outcomesOf(gateway);
    expect(outcomes.map((outcome) => outcome?.kind)).toEqual(["client-gone", "client-gone"]);
    expect(outcomes.filter((outcome) => outcome?.attainment !== undefined)).toHaveLength(1);
    await gateway.upstream.answerWith(streamedAnswer(["next"]));
    expect((await gateway.ask(STREAM)).status).toBe(200);
  });
});

const failsOver = async (gateway: BusyGateway): Promise<void> => {
  const asked = gateway.ask(STREAM);
  await gateway.sees((await gateway.upstream.requests()).length + 1);
  expect(textOf(await readEvents(await asked))).toBe("again");
};

describe("a late stream is given up rather than hedged", () => {
  test("when the pool's budget is used up", async () => {
    const gateway = await aBusyGateway([[HANG], streamedAnswer(["again"])]);
    await failsOver(gateway);
    expect(await hedgesOf(gateway)).toBe(1);
    await gateway.upstream.answerWith([HANG], streamedAnswer(["again"]));
    await failsOver(gateway);
    expect(await hedgesOf(gateway)).toBe(1);
    const outcomes = await outcomesOf(gateway);
    expect(outcomes.slice(2)).toMatchObject([{ kind: "upstream-failed" }, { kind: "completed" }]);
  });

  test("when it is beyond what its tenant is guaranteed", async () => {
    const gateway = await aBusyGateway(
      [streamedAnswer(["soon"]), [HANG], streamedAnswer(["again"])],
      {
        guaranteedRatios: [0, 0.9],
        tenant: { ...TENANT, targets: firstTokenWithin(2 * TARGET_MS) },
      },
    );
    // A pool that has just begun serves nobody beyond a guarantee; this one waits for it.
    await (await gateway.ask(STREAM)).text();
    await failsOver(gateway);
    expect(await hedgesOf(gateway)).toBe(0);
  });

  test("when its call has six connections without a head, and so would wait for one", async () => {
    // No call comes to so many by itself: this one has five more that wait, beside its own.
    const begun = vi.spyOn(PendingHeads.prototype, "during").mockImplementationOnce(function <Head>(
      this: PendingHeads,
      head: () => Promise<Head>,
    ): Promise<Head> {
      for (let index = 0; index < 5; index += 1) {
        void this.during(() => new Promise<never>(() => {}));
      }
      return this.during(head);
    });
    const gateway = await aBusyGateway([[HANG], streamedAnswer(["again"])]);
    await failsOver(gateway);
    expect(await hedgesOf(gateway)).toBe(0);
    // The five, and the two attempts, of which the first was counted when it was put off.
    expect(begun).toHaveBeenCalledTimes(8);
  });

  test("when its replica says that nothing has come there", async () => {
    const gateway = await aGateway({ replicaCount: 2, tenant: TENANT });
    await gateway.upstream.answerWith([HANG], streamedAnswer(["again"]));
    expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("again");
    expect(await hedgesOf(gateway)).toBe(0);
  });
});
