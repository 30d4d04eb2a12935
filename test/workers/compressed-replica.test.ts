import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { aGateway, becomesIdle, readEvents, textOf } from "./support/gateway.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

type Compression = "gzip" | "deflate";

function textIn(steps: readonly UpstreamStep[]): string {
  return steps.map((step) => (step.kind === "text" ? step.text : "")).join("");
}

async function compress(text: string, format: Compression): Promise<Uint8Array> {
  const body = new Response(text).body?.pipeThrough(new CompressionStream(format));
  return new Uint8Array(await new Response(body).arrayBuffer());
}

function bytesStep(bytes: Uint8Array): UpstreamStep {
  return { kind: "bytes", base64: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")) };
}

/** An answer as a replica gives it that compresses whatever it is asked for. */
async function compressed(
  steps: readonly UpstreamStep[],
  format: Compression,
  encoding: string = format,
): Promise<UpstreamStep[]> {
  const bytes = await compress(textIn(steps), format);
  const middle = Math.floor(bytes.length / 2);
  const [head] = steps;
  const headers = head?.kind === "head" ? head.headers : {};
  return [
    { kind: "head", status: 200, headers: { ...headers, "content-encoding": encoding } },
    bytesStep(bytes.subarray(0, middle)),
    { kind: "pause", ms: 20 },
    bytesStep(bytes.subarray(middle)),
    { kind: "end" },
  ];
}

describe("a replica that compresses although it was asked not to", () => {
  test("is read as if it had not, streamed and whole, and its client gets plain text", async () => {
    const gateway = await aGateway();
    const { ask, upstream } = gateway;
    await upstream.answerWith(
      await compressed(streamedAnswer(["Once", " upon"]), "gzip"),
      await compressed(wholeAnswer("a time"), "gzip"),
    );
    const streamed = await ask({ body: { stream: true } });
    expect(streamed.headers.get("content-encoding")).toBeNull();
    const events = await readEvents(streamed);
    expect([textOf(events), events.at(-1)]).toEqual(["Once upon", { data: "[DONE]" }]);
    const whole = await ask();
    expect(whole.headers.get("content-encoding")).toBeNull();
    expect(await whole.json()).toMatchObject({ choices: [{ message: { content: "a time" } }] });
    const asked = (await upstream.requests()).map(({ headers }) => headers["accept-encoding"]);
    expect(asked).toEqual(["identity", "identity"]);
    await becomesIdle(gateway);
  });

  test("in a way that nobody knows has given no answer, and none of its bytes get through", async () => {
    const gateway = await aGateway();
    const { ask, upstream } = gateway;
    await upstream.answerWith(
      await compressed(streamedAnswer(["Once"]), "deflate", "x-unheard-of"),
      await compressed(wholeAnswer("Once"), "deflate", "x-unheard-of"),
    );
    for (const stream of [true, false]) {
      // oxlint-disable-next-line no-await-in-loop -- the answers have an order
      const response = await ask({ body: { stream } });
      expect(response.status).toBe(502);
      // oxlint-disable-next-line no-await-in-loop -- likewise
      expect(await response.json()).toMatchObject({ error: { code: "upstream_error" } });
    }
    await becomesIdle(gateway);
  });

  test("and whose bytes turn out to be damaged ends in an error and not in half an answer", async () => {
    const gateway = await aGateway();
    const bytes = await compress(textIn(streamedAnswer(["Once"])), "gzip");
    const damaged = bytes.map((byte, index) => (index > 40 ? byte ^ 0x55 : byte));
    await gateway.upstream.answerWith([
      {
        kind: "head",
        status: 200,
        headers: { "content-type": "text/event-stream", "content-encoding": "gzip" },
      },
      bytesStep(damaged),
      { kind: "end" },
    ]);
    const response = await gateway.ask({ body: { stream: true } });
    // How far it was readable decides whether the head was out by then.
    const said = await response.text();
    expect(said).toContain('"code":"upstream_error"');
    expect(said).not.toContain("[DONE]");
    await becomesIdle(gateway);
  });
});
