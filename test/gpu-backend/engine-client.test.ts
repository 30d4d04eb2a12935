import { describe, expect, onTestFinished, test } from "vitest";
import { NO_SPECULATING } from "../../gpu-backend/engine/speculation/speculating.ts";
import { EngineClient, type EngineClientOptions } from "../../gpu-backend/engine-client.ts";
import type { EngineEvent } from "../../gpu-backend/thread-messages.ts";
import { aGenerateRequest, aScheduling } from "../support/engine-builders.ts";

const FAULTY_THREAD = new URL("../support/faulty-engine-thread.mjs", import.meta.url);

function aClient(fault: string, options: Partial<EngineClientOptions> = {}): EngineClient {
  const client = new EngineClient({
    thread: {
      modelDirectory: fault,
      precision: "f32",
      kvPrecision: undefined,
      runtime: "wasm",
      blockTokens: 16,
      blockCount: undefined,
      batchTokensMax: 16,
      sequencesMax: 2,
      queueMax: 1,
      prefixCache: true,
      scheduling: aScheduling(),
      speculating: NO_SPECULATING,
    },
    threadUrl: FAULTY_THREAD,
    ...options,
  });
  onTestFinished(() => client.close("The test is over"));
  return client;
}

/** Submits a request and gathers all that it hears, after its first terminal event too. */
function submit(client: EngineClient, id: string): EngineEvent[] {
  const heard: EngineEvent[] = [];
  client.submit(aGenerateRequest({ id }), (event) => heard.push(event));
  return heard;
}

describe("EngineClient", () => {
  test.each([
    ["exits", "The engine thread ended with code 3"],
    ["throws", "The engine thread broke: a bug"],
    ["breaks", "the runtime is gone"],
  ])("when the thread %s, each open request fails once", async (fault, message) => {
    const client = aClient(fault);
    await client.loaded;
    const heard = [submit(client, "a"), submit(client, "b")];
    expect(await client.ended).toBe(message);
    expect(client.condition).toBe("failed");
    expect(heard).toEqual([
      [{ kind: "failed", id: "a", message }],
      [{ kind: "failed", id: "b", message }],
    ]);
  });

  test("a thread whose step does not end is given up", async () => {
    const client = aClient("hangs", { stepMsMax: 50 });
    await client.loaded;
    const heard = submit(client, "a");
    expect(await client.ended).toBe("A step of the engine has not ended after 50 ms");
    expect(heard).toMatchObject([{ kind: "failed", id: "a" }]);
  });

  test("a model that cannot be loaded rejects with the reason", async () => {
    const client = aClient("load-fails");
    await expect(client.loaded).rejects.toThrow("no such weights");
    expect(client.condition).toBe("failed");
  });

  test("all is heard up to the terminal event, and nothing after it", async () => {
    const client = aClient("talks-on");
    await client.loaded;
    const heard = submit(client, "a");
    await client.whenIdle();
    await client.close("The test is over");
    expect(heard.map(({ kind }) => kind)).toEqual([
      "started",
      "prompt-logprobs",
      "embedded",
      "token",
      "finished",
    ]);
  });

  test("no more requests are open than may run and wait: the next is refused at once", async () => {
    const client = aClient("is-deaf");
    await client.loaded;
    const heard = ["a", "b", "c", "d"].map((id) => submit(client, id));
    expect(heard.flat(), "nothing is heard before submit returns").toEqual([]);
    await Promise.resolve();
    expect(heard).toEqual([[], [], [], [{ kind: "refused", id: "d", reason: "queue-full" }]]);
  });

  test("a submitted request counts as waiting until the thread says that it has seen it", async () => {
    const loads: unknown[] = [];
    const client = aClient("talks-on", { onChange: () => loads.push(client.load) });
    await client.loaded;
    submit(client, "a");
    await client.whenIdle();
    const tokens = aGenerateRequest().promptTokens.length;
    const none = {
      queuedRequests: 0,
      queuedUncachedTokens: 0,
      queuedAttendedPairs: 0,
      waitingKvTokens: 0,
    };
    const one = {
      queuedRequests: 1,
      queuedUncachedTokens: tokens,
      queuedAttendedPairs: (tokens * (tokens + 1)) / 2,
      waitingKvTokens: tokens,
    };
    expect(loads).toMatchObject([none, one, none]);
  });

  test("closing fails what is open, with the reason, and is no breakdown", async () => {
    const client = aClient("is-deaf");
    await client.loaded;
    const heard = submit(client, "a");
    await client.close("The engine is shutting down");
    expect(heard).toEqual([{ kind: "failed", id: "a", message: "The engine is shutting down" }]);
    expect(await client.ended).toBeUndefined();
    expect(client.condition).toBe("closed");
  });

  test("a draining engine takes nothing new and is idle when the last request has ended", async () => {
    const client = aClient("is-deaf");
    await client.loaded;
    submit(client, "a");
    client.drain();
    const late = submit(client, "b");
    await Promise.resolve();
    expect(late).toEqual([{ kind: "refused", id: "b", reason: "draining" }]);
    const idle = client.whenIdle();
    await client.close("The test is over");
    await idle;
  });
});
