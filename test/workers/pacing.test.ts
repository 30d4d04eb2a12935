import { describe, expect, test } from "vitest";
import { streamThatGoesOn } from "./support/answers.ts";
import { aGateway, becomesIdle, errorEvent, readEvents, textOf } from "./support/gateway.ts";
import { streamedAnswer } from "./support/upstream.ts";

const WORDS = Array.from({ length: 40 }, (_, index) => `${index} `);
const PACED = { body: { stream: true }, headers: { "x-sluice-pace": "1" } };
const TENANT = { targets: { tpot: { percentileRatio: 0.99, limitMs: 200 } } };

/** An answer whose words come every 10 ms. */
const EVENLY = streamedAnswer(WORDS).flatMap((step) => [step, { kind: "pause", ms: 10 } as const]);

describe("a client that asks for an even pace", () => {
  test("gets the whole answer in order and its end with it", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    await gateway.upstream.answerWith(EVENLY);
    const events = await readEvents(await gateway.ask(PACED));
    expect(textOf(events)).toBe(WORDS.join(""));
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    const [received] = await gateway.upstream.requests();
    expect(Object.keys(received?.headers ?? {})).not.toContain("x-sluice-pace");
  });

  test("gets what had come before an answer breaks off, and then the error", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    const pause = { kind: "pause", ms: 10 } as const;
    const broken = streamThatGoesOn(WORDS).flatMap((step) => [step, pause]);
    await gateway.upstream.answerWith([...broken, { kind: "reset" }]);
    const events = await readEvents(await gateway.ask(PACED));
    expect(textOf(events)).toBe(WORDS.join(""));
    expect(events.at(-1)).toEqual(errorEvent("upstream_error"));
    await becomesIdle(gateway);
  });

  test("is served as ever where no pace was promised", async () => {
    const gateway = await aGateway({ tenant: { targets: {} } });
    await gateway.upstream.answerWith(EVENLY);
    expect(textOf(await readEvents(await gateway.ask(PACED)))).toBe(WORDS.join(""));
  });
});
