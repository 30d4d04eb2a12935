import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ClientStream } from "../../workers/client-stream.ts";

const HEAD_HOLD_MS = 2000;
const HEARTBEAT_MS = 1000;
const KEEP_ALIVE = ": keep-alive\n\n";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function aClientStream(headers: () => Record<string, string> = () => ({})) {
  const onClientGone = vi.fn<() => void>();
  const client = new ClientStream({ headers, onClientGone });
  return { client, onClientGone };
}

/** Whether a promise has settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  const settled = promise.then(
    () => undefined,
    () => undefined,
  );
  return (await Promise.race([settled, Promise.resolve(pending)])) !== pending;
}

async function readNext(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const part = await reader?.read();
  reader?.releaseLock();
  return new TextDecoder().decode(part?.value);
}

describe("ClientStream", () => {
  test("holds the head until there is something to send, for two seconds", async () => {
    const { client } = aClientStream();
    await vi.advanceTimersByTimeAsync(HEAD_HOLD_MS - 1);
    expect(await isSettled(client.response)).toBe(false);
    const sent = client.send("data: a\n\n");
    const response = await client.response;
    expect(await readNext(response)).toBe("data: a\n\n");
    await sent;
    const ended = client.end("data: [DONE]\n\n");
    expect(await readNext(response)).toBe("data: [DONE]\n\n");
    expect(await readNext(response)).toBe("");
    await ended;
  });

  test("sends the head with a comment when it was held for two seconds", async () => {
    const { client } = aClientStream();
    await vi.advanceTimersByTimeAsync(HEAD_HOLD_MS);
    const response = await client.response;
    expect(response.status).toBe(200);
    expect(await readNext(response)).toBe(KEEP_ALIVE);
    await client.abort();
  });

  test("asks for the headers when the head goes out, not before", async () => {
    let timing = "early";
    const { client } = aClientStream(() => ({ "server-timing": timing }));
    timing = "known by now";
    const sent = client.send("x");
    const response = await client.response;
    expect(response.headers.get("server-timing")).toBe("known by now");
    await response.body?.cancel();
    await sent;
  });

  test("breaks every silence of a second by a comment, and no shorter one", async () => {
    const { client } = aClientStream();
    const sent = client.send("a");
    const response = await client.response;
    expect(await readNext(response)).toBe("a");
    await sent;
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS - 1);
    const again = client.send("b");
    expect(await readNext(response)).toBe("b");
    await again;
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS - 1);
    const next = readNext(response);
    expect(await isSettled(next)).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await next).toBe(KEEP_ALIVE);
    await client.abort();
  });

  test("piles no comments up on a client that does not read", async () => {
    const { client } = aClientStream();
    const sent = client.send("a");
    const response = await client.response;
    await vi.advanceTimersByTimeAsync(20 * HEARTBEAT_MS);
    expect(client.isBlocked).toBe(true);
    const ended = client.end("b");
    expect(await response.text()).toBe("ab");
    await Promise.all([sent, ended]);
    expect(client.isBlocked).toBe(false);
  });

  test("fails as a status while the head is held", async () => {
    const { client } = aClientStream();
    const failed = client.fail({ code: "upstream_error" });
    await expect(client.response).rejects.toMatchObject({ problem: { code: "upstream_error" } });
    await failed;
    await vi.advanceTimersByTimeAsync(10 * HEAD_HOLD_MS);
  });

  test("fails as one event once the head is out", async () => {
    const { client } = aClientStream();
    await vi.advanceTimersByTimeAsync(HEAD_HOLD_MS);
    const response = await client.response;
    const failed = client.fail({ code: "timeout" });
    expect(await response.text()).toBe(
      `${KEEP_ALIVE}event: error\ndata: {"error":{"message":"The answer took too long",` +
        `"type":"server_error","param":null,"code":"timeout"}}\n\n`,
    );
    await failed;
    await client.send("more");
    await client.fail({ code: "internal_error" });
  });

  test("notices by a failing write that the client has left", async () => {
    const { client, onClientGone } = aClientStream();
    const sent = client.send("a");
    const response = await client.response;
    await response.body?.cancel();
    await sent;
    await client.send("b");
    expect(onClientGone).toHaveBeenCalled();
  });

  test("notices by a heartbeat that the client has left", async () => {
    const { client, onClientGone } = aClientStream();
    const sent = client.send("a");
    const response = await client.response;
    expect(await readNext(response)).toBe("a");
    await sent;
    await response.body?.cancel();
    expect(onClientGone).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2 * HEARTBEAT_MS);
    expect(onClientGone).toHaveBeenCalled();
  });

  test("that is aborted lets go of whoever waits for the client", async () => {
    const { client } = aClientStream();
    const sent = client.send("a");
    await client.response;
    await client.abort();
    await sent;
    const held = aClientStream().client;
    await Promise.all([held.abort(), expect(held.response).rejects.toThrow("The client has left")]);
  });
});
