import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Pacer } from "../../src/streaming/pacer.ts";
import { ClientStream } from "../../workers/client-stream.ts";
import { PacedClient } from "../../workers/paced-client.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A client whose pace is kept, and all that it has been sent, with the instants from its beginning. */
function aPacedClient() {
  const client = new ClientStream({
    headHoldMs: 60_000,
    heartbeatMs: 60_000,
    headers: () => ({}),
    onClientGone: () => {},
  });
  const beganAtMs = Date.now();
  const parts: { text: string; afterMs: number }[] = [];
  const read = async (): Promise<void> => {
    const response = await client.response;
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) {
      parts.push({ text: decoder.decode(bytes), afterMs: Date.now() - beganAtMs });
    }
  };
  const whole = read();
  const paced = new PacedClient(client, new Pacer({ gapMsMax: 100 }));
  return { paced, parts, whole };
}

/** Sends a stream of 60 texts that comes every 20 ms. */
async function sendEvenly(paced: PacedClient): Promise<void> {
  for (let index = 0; index < 60; index += 1) {
    // oxlint-disable-next-line no-await-in-loop -- texts have an order
    await paced.send(`${index} `);
    // oxlint-disable-next-line no-await-in-loop -- and a pace
    await vi.advanceTimersByTimeAsync(20);
  }
}

const EVENLY = Array.from({ length: 60 }, (_, index) => `${index} `).join("");

describe("PacedClient", () => {
  test("sends the first text at once, and the others in order", async () => {
    const { paced, parts, whole } = aPacedClient();
    await paced.send("first");
    await vi.advanceTimersByTimeAsync(0);
    expect(parts).toEqual([{ text: "first", afterMs: 0 }]);
    await sendEvenly(paced);
    await paced.end("last");
    await whole;
    expect(parts.map(({ text }) => text).join("")).toBe(`first${EVENLY}last`);
  });

  test("fails behind all that it held", async () => {
    const { paced, parts, whole } = aPacedClient();
    await paced.send("first");
    await vi.advanceTimersByTimeAsync(50);
    for (const text of ["second", "third"]) {
      // oxlint-disable-next-line no-await-in-loop -- texts have an order
      await paced.send(text);
    }
    await paced.fail({ code: "upstream_error" });
    await whole;
    const sent = parts.map(({ text }) => text).join("");
    expect(sent).toMatch(/^firstsecondthirdevent: error\ndata: .*\n\n$/);
    expect(parts.at(-1)?.afterMs).toBe(50);
  });

  test("that has been sent nothing fails with a status", async () => {
    const { paced, whole } = aPacedClient();
    const failing = paced.fail({ code: "timeout" });
    await expect(whole).rejects.toMatchObject({ problem: { code: "timeout" } });
    await failing;
  });

  test("goes on sending while its replica pauses, for as long as it was promised", async () => {
    const { paced, parts } = aPacedClient();
    await sendEvenly(paced);
    const heard = parts.length;
    expect(heard).toBeLessThan(60);
    await vi.advanceTimersByTimeAsync(100);
    expect(parts.map(({ text }) => text).join("")).toBe(EVENLY);
    expect(parts.length).toBeGreaterThan(heard);
  });

  test("ends at once with all that it holds", async () => {
    const { paced, parts, whole } = aPacedClient();
    await sendEvenly(paced);
    await paced.end("last");
    await whole;
    expect(parts.at(-1)?.text.endsWith("last")).toBe(true);
    expect(parts.map(({ text }) => text).join("")).toBe(`${EVENLY}last`);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("does not hold more than its bound", async () => {
    const { paced, parts } = aPacedClient();
    await sendEvenly(paced);
    const large = "x".repeat(65_537);
    await paced.send(large);
    await vi.advanceTimersByTimeAsync(0);
    const sent = parts.map(({ text }) => text).join("");
    expect([sent.startsWith(EVENLY), sent.length]).toEqual([true, EVENLY.length + large.length]);
  });
});
