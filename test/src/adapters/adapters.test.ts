import { describe, expect, test } from "vitest";
import { ADAPTERS } from "../../../src/adapters/adapters.ts";
import type { ProbeAnswer } from "../../../src/adapters/engine-adapter.ts";
import { bodyEditsOf } from "../../../src/adapters/body-edits.ts";
import type { ForeignEngine } from "../../../src/protocol/engine-kind.ts";
import {
  canTakePriorities,
  FOREIGN_ENGINES,
  PRIORITY_ENGINES,
} from "../../../src/protocol/engine-kind.ts";
import { URGENCY_MAX } from "../../../src/protocol/urgency.ts";

const answer = (text: string, status = 200): ProbeAnswer => ({
  status,
  text,
  contentType: text.startsWith("{") ? "application/json" : "text/plain; version=0.0.4",
});
const json = (body: object, status = 200): ProbeAnswer => answer(JSON.stringify(body), status);

/** What a server of each kind answers to its probes, in the words of its own documentation. */
const HEALTHY: readonly [ForeignEngine, readonly ProbeAnswer[], object][] = [
  [
    "vllm",
    [
      answer(""),
      answer(`# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 8.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 7.0
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 3.0
vllm:num_requests_waiting{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.31
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.92
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.73e+09
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 250.0
`),
    ],
    { isReady: true, running: 15, queued: 3, kvUsedRatio: 0.92, prefixHitRatio: 0.25 },
  ],
  [
    "sglang",
    [
      json({
        timestamp: "2026-08-06T09:15:23.481920+00:00",
        version: "0.5.9",
        loads: [
          {
            dp_rank: 0,
            num_running_reqs: 5,
            num_waiting_reqs: 2,
            num_waiting_uncached_tokens: 425,
            max_running_requests: 64,
            token_usage: 0.4,
            cache_hit_rate: 0.1,
            utilization: 0,
          },
          {
            dp_rank: 1,
            num_running_reqs: 1,
            num_waiting_reqs: 0,
            num_waiting_uncached_tokens: 0,
            max_running_requests: 64,
            token_usage: 0.7,
            cache_hit_rate: 0.3,
          },
        ],
      }),
    ],
    {
      isReady: true,
      running: 6,
      queued: 2,
      queuedTokens: 425,
      runningMax: 128,
      kvUsedRatio: 0.7,
      prefixHitRatio: 0.3,
    },
  ],
  [
    "trtllm",
    [
      answer(""),
      answer(`trtllm_num_requests_running{engine_type="trtllm",model_name="llama-8b"} 5
trtllm_num_requests_waiting{engine_type="trtllm",model_name="llama-8b"} 3
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="llama-8b"} 0.6
trtllm_kv_cache_hit_rate{engine_type="trtllm",model_name="llama-8b"} 0.85`),
    ],
    { isReady: true, running: 5, queued: 3, kvUsedRatio: 0.6, prefixHitRatio: 0.85 },
  ],
  [
    "tgi",
    [
      answer(""),
      answer(`# TYPE tgi_queue_size gauge
tgi_queue_size 3
tgi_batch_current_size 5
tgi_batch_current_max_tokens 4096
tgi_batch_max_total_tokens 16384`),
    ],
    { isReady: true, running: 5, queued: 3, kvUsedRatio: 0.25 },
  ],
  [
    "llamacpp",
    [
      json({ status: "ok" }),
      answer("llamacpp:requests_processing 4\nllamacpp:requests_deferred 46\n"),
      json({ total_slots: 4, chat_template: "…" }),
    ],
    { isReady: true, running: 4, queued: 46, runningMax: 4 },
  ],
  [
    "dynamo",
    [
      json({ status: "healthy", endpoints: ["dyn://a"], instances: [{ instance_id: 1 }] }),
      answer(`dynamo_frontend_inflight_requests{model="k"} 12
dynamo_frontend_queued_requests{model="k"} 11
dynamo_frontend_router_queue_pending_requests{worker_type="decode"} 2`),
    ],
    { isReady: true, running: 12, queued: 2 },
  ],
  ["ollama", [json({ version: "0.13.0" })], { isReady: true }],
  ["openai", [], {}],
];

describe("an adapter", () => {
  test.each(HEALTHY)("of %s reads what the server says of itself", (engine, answers, signals) => {
    const adapter = ADAPTERS[engine];
    expect(adapter.probePaths).toHaveLength(answers.length);
    expect(adapter.readSignals(answers)).toEqual(signals);
  });

  test.each(FOREIGN_ENGINES)(
    "of %s takes what is not told for unknown, and never for 0",
    (engine) => {
      const { probePaths, readSignals } = ADAPTERS[engine];
      const strange = ["", "not a metric at all\n", "{", "<html>502</html>", "{}", "[]", "null"];
      for (const text of strange) {
        const { isReady: _, ...figures } = readSignals(probePaths.map(() => answer(text)));
        expect([text, figures]).toEqual([text, {}]);
      }
      expect(readSignals(probePaths.map(() => undefined))).toEqual({});
      // A path that is not there, or not for us, says nothing about health.
      for (const status of [401, 404]) {
        expect(readSignals(probePaths.map(() => answer("{}", status)))).toEqual({});
      }
    },
  );

  test.each(FOREIGN_ENGINES.filter((engine) => engine !== "openai"))(
    "of %s says so when the server is not ready",
    (engine) => {
      const { probePaths, readSignals } = ADAPTERS[engine];
      const unready = json({ error: { message: "Loading model", code: 503 } }, 503);
      expect(readSignals(probePaths.map(() => unready))).toEqual({ isReady: false });
    },
  );

  test("of vLLM leaves out what is not a number that could be meant", () => {
    const { readSignals } = ADAPTERS.vllm;
    const metrics = answer(`vllm:num_requests_running{model_name="a"} NaN
vllm:num_requests_running{model_name="b"} 4
vllm:num_requests_waiting -1
vllm:kv_cache_usage_perc 1.5`);
    expect(readSignals([answer(""), metrics])).toEqual({ isReady: true, running: 4 });
  });

  test("of vLLM reads the names that older versions have", () => {
    const { readSignals } = ADAPTERS.vllm;
    const metrics = answer("vllm:gpu_cache_usage_perc 0.42\n");
    expect(readSignals([undefined, metrics])).toEqual({ kvUsedRatio: 0.42 });
  });

  test("of Dynamo does not take a frontend without workers for ready", () => {
    const { readSignals } = ADAPTERS.dynamo;
    const empty = json({ status: "healthy", endpoints: [], instances: [] });
    expect(readSignals([empty, undefined])).toEqual({ isReady: false });
  });

  test("never asks for what costs the server work, or takes something from another reader", () => {
    const paths = Object.values(ADAPTERS).map(({ engine, probePaths }) => [engine, probePaths]);
    expect(Object.fromEntries(paths)).toMatchObject({
      // It generates a token for `/health`.
      sglang: expect.not.arrayContaining(["/health"]),
      // It drains its statistics at `/metrics`.
      trtllm: expect.not.arrayContaining(["/metrics"]),
    });
  });

  test.each([
    ["sglang", 503, "the request queue is full.", true],
    ["sglang", 503, "request waiting timeout reached.", true],
    ["sglang", 503, "service unavailable", false],
    ["tgi", 429, "model is overloaded", true],
    ["dynamo", 529, "all workers are busy", true],
    ["dynamo", 503, "no instances", false],
    ["ollama", 503, "server busy, please try again.  maximum pending requests exceeded", true],
    ["ollama", 503, "model runner has unexpectedly stopped", false],
  ] as const)("of %s tells by %i '%s' whether it is full", (engine, status, message, isFull) => {
    expect(ADAPTERS[engine].isOverload?.({ status, message }) ?? false).toBe(isFull);
  });

  test.each([
    ["sglang", 400, "the following requested lora adapters are not loaded: {'sql'}", true],
    ["sglang", 400, "the input is longer than the model's context", false],
    ["trtllm", 400, "unknown model: llama", true],
    ["trtllm", 400, "unknown lora: sql; for model: llama", true],
    ["trtllm", 400, "an unknown model was named in the prompt", false],
  ] as const)(
    "of %s tells by %i '%s' whether it lacks the model",
    (engine, status, message, lacks) => {
      expect(ADAPTERS[engine].lacksModel?.({ status, message })).toBe(lacks);
    },
  );

  test("tells the namespace of a tenant's KV to those that keep namespaces apart", () => {
    const told = FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].keepsNamespaces);
    expect(told).toEqual(["vllm", "sglang", "dynamo"]);
    for (const engine of FOREIGN_ENGINES) {
      const { ownMembers, keepsNamespaces } = ADAPTERS[engine];
      expect(ownMembers?.({ cacheSalt: 'a"b' })["cache_salt"]).toBe(
        keepsNamespaces ? '"a\\"b"' : undefined,
      );
    }
    // Its `nvext` outranks what stands beside it.
    expect(ADAPTERS.dynamo.ownMembers?.({ cacheSalt: 'a"b' })).toEqual({
      cache_salt: '"a\\"b"',
      nvext: '{"cache_salt":"a\\"b"}',
    });
  });

  test("takes out of a client's body what is not a client's to say, and says its own instead", () => {
    expect(bodyEditsOf(ADAPTERS.ollama, { cacheSalt: "s", urgency: 1 })).toEqual({});
    expect(bodyEditsOf(ADAPTERS.dynamo, {})).toEqual({ nvext: undefined });
    expect(bodyEditsOf(ADAPTERS.dynamo, { urgency: 7 })).toEqual({
      nvext: '{"agent_hints":{"priority":7}}',
    });
    expect(bodyEditsOf(ADAPTERS.vllm, { cacheSalt: "s", urgency: 3 })).toEqual({
      kv_transfer_params: undefined,
      request_id: undefined,
      cache_salt: '"s"',
      priority: "-3",
    });
    const { openai, ...known } = ADAPTERS;
    const all = Object.values(known).flatMap(({ withheldMembers }) => withheldMembers);
    expect(new Set(openai.withheldMembers)).toEqual(new Set(all));
    for (const engine of FOREIGN_ENGINES) {
      const said = Object.keys(ADAPTERS[engine].ownMembers?.({ cacheSalt: "s", urgency: 1 }) ?? {});
      // The client's own are taken out for every server: see `upstreamBodyOf()`.
      const always = ["cache_salt", "priority"];
      const covered = [...always, ...ADAPTERS[engine].withheldMembers];
      expect(said.filter((name) => !covered.includes(name))).toEqual([]);
    }
  });
});

const wordOf = (engine: ForeignEngine) => (engine === "dynamo" ? "nvext" : "priority");

/** What each is told of the least urgent request and of the most urgent one, as its documentation has it. */
const PRIORITIES: Readonly<Record<(typeof PRIORITY_ENGINES)[number], readonly [number, number]>> = {
  // Lower is earlier.
  vllm: [0, -9],
  // Higher is earlier; what is more than ten apart stops running answers.
  sglang: [0, 9],
  // What is not from 0 to 1 is refused.
  trtllm: [0, 1],
  dynamo: [0, 9],
};

describe("an adapter of an engine that orders by what it is told", () => {
  test("is one that a configuration may ask it of, and no other has words for it", () => {
    const able = FOREIGN_ENGINES.filter((engine) => ADAPTERS[engine].priorities !== undefined);
    expect(able).toEqual(PRIORITY_ENGINES);
    for (const engine of FOREIGN_ENGINES) {
      const said = ADAPTERS[engine].ownMembers?.({ urgency: 1 }) ?? {};
      expect(Object.keys(said)).toEqual(canTakePriorities(engine) ? [wordOf(engine)] : []);
    }
  });

  test.each(PRIORITY_ENGINES)(
    "of %s has its sign, and says the more urgent to be earlier",
    (engine) => {
      const [least, most] = PRIORITIES[engine];
      for (let urgency = 0; urgency <= URGENCY_MAX; urgency += 1) {
        const said = JSON.parse(ADAPTERS[engine].ownMembers?.({ urgency })[wordOf(engine)] ?? "");
        const told: unknown = engine === "dynamo" ? said.agent_hints.priority : said;
        expect(told).toBeCloseTo(least + (urgency / URGENCY_MAX) * (most - least), 9);
      }
    },
  );
});
