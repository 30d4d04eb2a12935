import { describe, expect, test } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import {
  canTakePriorities,
  FOREIGN_ENGINES,
  PRIORITY_ENGINES,
} from "../../src/protocol/engine-kind.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import { aGateway } from "./support/gateway.ts";
import { jsonAnswer, wholeAnswer } from "./support/upstream.ts";

async function aPoolOf(engine: ForeignEngine, wish: GatewayWish = {}): Promise<TestGateway> {
  const gateway = await aGateway({ ...wish, pool: { engine } });
  const probed = ADAPTERS[engine].probePaths.map((path) => [path, jsonAnswer({})] as const);
  await gateway.upstream.saysOfItself(Object.fromEntries(probed));
  await gateway.upstream.answerWith(wholeAnswer("a"));
  return gateway;
}

/** What a server was sent, oldest first. */
async function bodiesOf({ upstream }: TestGateway): Promise<readonly Record<string, unknown>[]> {
  const requests = await upstream.requests();
  return requests.map(({ body }): Record<string, unknown> => JSON.parse(body));
}

/** All that a client may try to say to any of them: whose cache, which order, which other server, whose adapter. */
const MADE_UP = {
  cache_salt: "of-another-tenant",
  priority: -1_000,
  nvext: { cache_salt: "of-another-tenant", agent_hints: { priority: 1_000, strict_priority: 9 } },
  kv_transfer_params: { remote_host: "10.0.0.1", remote_port: 22 },
  request_id: "of-another-request",
  bootstrap_host: "10.0.0.1",
  bootstrap_port: 22,
  bootstrap_room: 1,
  extra_key: "of-another-tenant",
  rid: "of-another-request",
  session_params: { id: "of-another-request" },
  lora_path: "an-adapter-of-another-tenant",
  routed_dp_rank: 3,
  data_parallel_rank: 3,
  custom_logit_processor: "code",
  disaggregated_params: { ctx_request_id: 1 },
  lora_request: { lora_path: "/etc" },
  id_slot: 3,
  lora: [{ id: 0, scale: 9 }],
};

describe.each(FOREIGN_ENGINES)("a server of kind %s", (engine) => {
  test("is told nothing by a client that is not a client's to say there", async () => {
    const gateway = await aPoolOf(engine);
    await gateway.ask({ body: { ...MADE_UP, top_k: 7 } });
    const [body = {}] = await bodiesOf(gateway);
    const { withheldMembers, ownMembers } = ADAPTERS[engine];
    const own = Object.keys(ownMembers?.({ cacheSalt: "s" }) ?? {});
    for (const name of [...withheldMembers, "cache_salt", "priority"]) {
      expect([name, name in body]).toEqual([name, own.includes(name)]);
    }
    expect(JSON.stringify(own.map((name) => body[name]))).not.toMatch(/another|1000|strict/);
    // What engines offer beyond the API is a client's to ask for.
    expect(body["top_k"]).toBe(7);
  });
});

test("a server of which nothing is known is told nothing by a client that any kind would heed", async () => {
  const gateway = await aPoolOf("openai");
  await gateway.ask({ body: MADE_UP });
  const [body] = await bodiesOf(gateway);
  expect(Object.keys(body ?? {}).toSorted()).toEqual(["messages", "model"]);
});

test("embeddings say no more of their own than other requests, and are of nobody's cache", async () => {
  const gateway = await aPoolOf("dynamo");
  await gateway.upstream.answerWith(jsonAnswer({ object: "list", data: [], usage: {} }));
  const { nvext, priority } = MADE_UP;
  await gateway.ask({ path: "/v1/embeddings", body: { input: "a", nvext, priority } });
  const [body] = await bodiesOf(gateway);
  expect(Object.keys(body ?? {}).toSorted()).toEqual(["input", "model"]);
});

describe.each(PRIORITY_ENGINES)("a server of kind %s that is to be told an order", (engine) => {
  test("is told that what is due soon and guaranteed comes first, whatever the client says", async () => {
    expect(canTakePriorities(engine)).toBe(true);
    const gateway = await aPoolOf(engine, {
      replicaSettings: [{ takesPriorities: true }],
      guaranteedRatios: [0.9, 0],
      tenant: { targets: firstTokenWithin(1_900) },
      otherTenant: { targets: firstTokenWithin(1_900) },
    });
    const stream = { ...MADE_UP, stream: true };
    await gateway.ask({ body: stream });
    await gateway.ask({ body: stream, key: gateway.otherKey });
    const told = (await bodiesOf(gateway)).map((body) =>
      engine === "dynamo" ? body["nvext"] : body["priority"],
    );
    const [first, second] = {
      vllm: [-8, -3],
      sglang: [8, 3],
      trtllm: [8 / 9, 3 / 9],
      dynamo: [8, 3].map((priority) => ({
        cache_salt: expect.stringMatching(/^[\w-]{20,}$/),
        agent_hints: { priority },
      })),
    }[engine];
    expect(told).toEqual([first, second]);
  });
});
