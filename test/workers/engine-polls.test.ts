import { describe, expect, test, vi } from "vitest";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, readEvents, WAIT } from "./support/gateway.ts";
import { jsonAnswer, streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const HANG = { kind: "hang" } as const;
const OK = jsonAnswer({});
const STREAM = { body: { stream: true } };

const metrics = (text: string) =>
  [
    { kind: "head", status: 200, headers: { "content-type": "text/plain" } },
    { kind: "text", text },
    { kind: "end" },
  ] as const;

const aPoolOf = (engine: ForeignEngine, wish: GatewayWish = {}): Promise<TestGateway> =>
  aGateway({ guaranteedRatios: [0, 0], ...wish, pool: { engine, ...wish.pool } });

/** A stream that holds the pool busy until the returned function is called. */
async function hold(gateway: TestGateway): Promise<() => Promise<void>> {
  const left = new AbortController();
  const held = await gateway.ask({ ...STREAM, signal: left.signal });
  return async () => {
    left.abort();
    await held.body?.cancel().catch(() => {});
  };
}

async function replicaStates(gateway: TestGateway): Promise<readonly string[]> {
  return (await gateway.poolStatus()).replicas.map(({ state }) => state);
}

describe("a pool of servers that say how they are", () => {
  test("asks them while it has something to do, with their secret, and not beyond", async () => {
    const gateway = await aPoolOf("vllm", { pool: { secretName: "QA_POOL_TOKEN" } });
    await gateway.upstream.saysOfItself({
      "/health": OK,
      "/metrics": metrics("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"),
    });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const release = await hold(gateway);
    await vi.waitFor(async () => {
      expect((await gateway.upstream.probed()).length).toBeGreaterThanOrEqual(4);
    }, WAIT);
    const probed = await gateway.upstream.probed();
    expect(new Set(probed.map(({ path }) => path))).toEqual(
      new Set(["/health", "/metrics", "/v1/models"]),
    );
    expect(probed.filter(({ path }) => path === "/v1/models")).toHaveLength(1);
    for (const { headers } of probed) {
      expect(headers["authorization"]).toBe("Bearer sluice-local-token-of-a-pool");
      expect(JSON.stringify(headers)).not.toMatch(/x-gw-|x-sluice|sk-test/);
    }
    await release();
    await becomesIdle(gateway);
    // One more round may have begun before it was idle.
    await scheduler.wait(1_300);
    const { length } = await gateway.upstream.probed();
    await scheduler.wait(1_500);
    expect(await gateway.upstream.probed()).toHaveLength(length);
  });

  test("asks at most sixteen of them: those beyond are known by what was sent there", async () => {
    const gateway = await aPoolOf("ollama", { replicaCount: 18 });
    await gateway.upstream.saysOfItself({ "/api/version": OK, "/api/tags": OK });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const release = await hold(gateway);
    const versionsAsked = async () =>
      (await gateway.upstream.probed()).filter(({ path }) => path === "/api/version");
    await vi.waitFor(async () => {
      expect((await versionsAsked()).length).toBeGreaterThanOrEqual(32);
    }, WAIT);
    const asked = new Set((await versionsAsked()).map(({ address }) => address));
    expect([...asked].toSorted((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, at) => at));
    expect(await replicaStates(gateway)).toHaveLength(18);
    await release();
  });

  test("never reads a TensorRT-LLM's statistics, which whoever reads them takes away", async () => {
    const gateway = await aPoolOf("trtllm");
    await gateway.upstream.saysOfItself({
      "/health": OK,
      "/metrics": jsonAnswer([{ iter: 1 }]),
      "/prometheus/metrics": metrics("trtllm_num_requests_running 1\n"),
      "/v1/models": OK,
    });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG));
    const release = await hold(gateway);
    await vi.waitFor(async () => {
      expect((await gateway.upstream.probed()).length).toBeGreaterThanOrEqual(5);
    }, WAIT);
    const paths = (await gateway.upstream.probed()).map(({ path }) => path);
    expect(new Set(paths)).toEqual(new Set(["/health", "/prometheus/metrics", "/v1/models"]));
    await release();
  });

  test("sends nothing to one that says it is not ready, and again once it is", async () => {
    const gateway = await aPoolOf("llamacpp", { replicaCount: 2 });
    const loading = [
      { kind: "head", status: 503, headers: { "content-type": "application/json" } },
      { kind: "text", text: '{"error":{"code":503,"message":"Loading model"}}' },
      { kind: "end" },
    ] as const;
    await gateway.upstream.saysOfItself({ "/health": OK, "1/health": loading });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), streamedAnswer(["b"]));
    const release = await hold(gateway);
    await vi.waitFor(async () => expect(await replicaStates(gateway)).toContain("unready"), WAIT);
    const before = (await gateway.upstream.requests()).length;
    await readEvents(await gateway.ask(STREAM));
    await readEvents(await gateway.ask(STREAM));
    const later = (await gateway.upstream.requests()).slice(before);
    expect(later.map(({ address }) => address)).toEqual([0, 0]);
    await gateway.upstream.saysOfItself({ "/health": OK });
    await vi.waitFor(async () => {
      expect(await replicaStates(gateway)).toEqual(["ready", "ready"]);
    }, WAIT);
    await release();
  });

  test.each([
    ["does not answer", [HANG]],
    ["answers with what is none", metrics("<html>")],
    ["breaks off", [...OK.slice(0, 1), { kind: "reset" } as const]],
    ["redirects", [{ kind: "head", status: 302, headers: { location: "/elsewhere" } }] as const],
  ])("takes what a server that %s would have said for unknown", async (_, answer) => {
    const gateway = await aPoolOf("sglang");
    await gateway.upstream.saysOfItself({ "/v1/loads": answer });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), wholeAnswer("b"));
    const release = await hold(gateway);
    await vi.waitFor(async () => {
      expect((await gateway.upstream.probed()).length).toBeGreaterThanOrEqual(2);
    }, WAIT);
    expect(await replicaStates(gateway)).toEqual(["ready"]);
    expect((await gateway.ask()).status).toBe(200);
    await release();
  });

  test("tells a server that keeps namespaces apart whose KV it is, a different one for each tenant", async () => {
    const gateway = await aPoolOf("vllm");
    await gateway.upstream.saysOfItself({ "/health": OK, "/metrics": OK });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask({ body: { seed: 7 } });
    await gateway.ask({ key: gateway.otherKey, body: { cache_salt: "made up" } });
    const bodies = (await gateway.upstream.requests()).map(({ body }): Record<string, unknown> =>
      JSON.parse(body),
    );
    const salts = bodies.map((body) => body["cache_salt"]);
    expect(new Set(salts).size).toBe(2);
    for (const salt of salts) expect(salt).toMatch(/^[\w-]{20,}$/);
    expect(bodies[0]).toMatchObject({ seed: 7, model: expect.any(String) });
  });

  test("tells nothing of it to one that knows no such thing", async () => {
    const gateway = await aPoolOf("ollama");
    await gateway.upstream.saysOfItself({ "/api/version": OK });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    await gateway.ask();
    const [request] = await gateway.upstream.requests();
    expect(request?.body).not.toContain("cache_salt");
  });
});
