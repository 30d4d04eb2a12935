import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, eventsOf, textOf, WAIT } from "./support/gateway.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

/** The disk of a tenant's object, which ends no write until it is let. */
interface SlowDisk {
  hold(): void;
  release(): void;
}

async function slowDiskOf({ tenantId }: TestGateway): Promise<SlowDisk> {
  const disk = { isHeld: false };
  await runInDurableObject(env.TENANTS.getByName(tenantId), (_object, { storage }) => {
    const sync = storage.sync.bind(storage);
    vi.spyOn(storage, "sync").mockImplementation(async () => {
      // oxlint-disable-next-line no-await-in-loop -- as long as it is held
      while (disk.isHeld) await scheduler.wait(2);
      await sync();
    });
  });
  return { hold: () => (disk.isHeld = true), release: () => (disk.isHeld = false) };
}

/** Waits until the pool has been told so often that a call has got so far. */
async function isTold(gateway: TestGateway, kind: "started" | "settle", times = 1): Promise<void> {
  await vi.waitFor(async () => {
    const calls = (await gateway.decisions()).flatMap((record) => record.calls);
    expect(calls.filter(({ call }) => call.kind === kind)).toHaveLength(times);
  }, WAIT);
}

/** What a client has got of a stream so far. */
function readerOf(asked: Promise<Response>) {
  const got = { hasHead: false, text: "" };
  const read = async (): Promise<string> => {
    const { body } = await asked;
    got.hasHead = true;
    const utf8 = new TextDecoder();
    for await (const bytes of body ?? []) got.text += utf8.decode(bytes, { stream: true });
    return got.text;
  };
  return { got, whole: read() };
}

describe("a tenant's object whose disk is slow", () => {
  test("keeps no request from its replica, but its first token from the client", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedAnswer(["a", "b"]));
    const disk = await slowDiskOf(gateway);
    disk.hold();
    const { got, whole } = readerOf(gateway.ask({ body: { stream: true } }));
    await isTold(gateway, "started");
    expect(got).toEqual({ hasHead: false, text: "" });
    disk.release();
    expect(textOf(eventsOf(await whole))).toBe("ab");
    await becomesIdle(gateway);
  });

  test("keeps the end of a stream from the client until it is counted", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "end" }, ...streamedAnswer([]).slice(2)),
    );
    const disk = await slowDiskOf(gateway);
    const { got, whole } = readerOf(gateway.ask({ body: { stream: true } }));
    await vi.waitFor(() => expect(textOf(eventsOf(got.text))).toBe("a"), WAIT);
    disk.hold();
    await gateway.upstream.openGate("end");
    await isTold(gateway, "settle");
    expect(got.text).not.toContain("[DONE]");
    disk.release();
    expect(eventsOf(await whole).at(-1)).toEqual({ data: "[DONE]" });
    await becomesIdle(gateway);
  });

  test("keeps a whole answer from the client until it is counted", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(wholeAnswer("a"));
    const disk = await slowDiskOf(gateway);
    disk.hold();
    const { got, whole } = readerOf(gateway.ask());
    await isTold(gateway, "settle");
    expect(got).toEqual({ hasHead: false, text: "" });
    disk.release();
    expect(await whole).toContain('"content":"a"');
    await becomesIdle(gateway);
  });
});
