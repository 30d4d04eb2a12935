import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml, parseDocument } from "yaml";
import { BUILT_IN_CLASSES } from "../../../src/slo/targets.ts";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";
import { CONFIGURATION_LIMITS } from "../../../src/tenants/live-configuration.ts";

const hashKey = (key: string) => createHmac("sha256", "pepper").update(key).digest("hex");
const HASH = "a".repeat(64);

const MINIMAL = `
models: { tiny: { context: 2048, pool: local } }
pools: { local: { engine: sluice, replicas: [{ url: "http://127.0.0.1:9101" }] } }
tenants: { acme: { keys: [{ name: prod, hash: "hmac-sha256:${HASH}" }], models: [tiny], class: chat } }
`;

function parse(text: string, mode: "local" | "production" = "local") {
  return parseConfiguration(parseYaml(text), { mode, hashKey });
}

/** The problems of a document as lines `path: message`. */
function problemsOf(document: unknown, mode: "local" | "production" = "local"): string[] {
  const parsed = parseConfiguration(document, { mode, hashKey });
  if (parsed.kind === "ok") return [];
  return parsed.problems.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

/** The problems of the minimal document with one value replaced or added. */
function problemsWith(path: string, value: unknown, mode?: "local" | "production"): string[] {
  const document = parseDocument(MINIMAL);
  document.setIn(path.split("."), document.createNode(value, { aliasDuplicateObjects: false }));
  return problemsOf(document.toJS(), mode);
}

/** Two pools, the first of two replicas of which more is said. */
const twoPools = (first: string, second: string) => `
      models: { a: { context: 8k, pool: qa }, b: { context: 8k, pool: qa }, c: { context: 8k, pool: other } }
      pools:
        qa: { engine: vllm, replicas: [{ url: http://qa-1${first} }, { url: http://qa-2${second} }] }
        other: { engine: vllm, replicas: [{ url: http://qa-3 }] }
      tenants: { acme: { keys: [], models: [a, b, c], class: chat } }`;

const poolProblems = (first: string, second = "") => problemsOf(parseYaml(twoPools(first, second)));

const issuerText = (more: string) => `
  models: { tiny: { context: 1k, pool: local } }
  pools: { local: { engine: sluice, replicas: [{ url: http://gpu:1 }] } }
  tenants: { acme: { models: [tiny], class: chat, keys: [] } }
  jwt: { login: { issuer: https://login.example, audience: sluice, ${more} } }`;

describe("parseConfiguration()", () => {
  test("resolves units, defaults and keys into a live configuration", () => {
    const parsed = parse(`
      models:
        chat-8b: { context: 32768, pool: gpus, upstream: meta-llama/Llama-3.1-8B-Instruct }
        org/tiny: { context: 2k, pool: gpus }
      pools:
        gpus:
          engine: sluice
          replicas: [{ url: "HTTP://GPU-1:8000/", max_running: 64 }, { url: http://gpu-2:8000, weight: 3 }]
          queue_max: 1k
      classes:
        voice: { ttft: { p99: 300ms, per_prompt_token: 0.2ms }, tpot: { p99.9: 25ms }, tbt_max: 200ms, e2e: { p95: 8s } }
      tenants:
        acme:
          keys:
            - { name: prod, hash: "hmac-sha256:${HASH}", not_before: 2026-01-01, expires: 2027-06-30 }
            - { name: dev, key: sk-plain-text }
          models: [chat-8b, org/tiny]
          class: voice
          share: { weight: 4, guaranteed: 20% }
          priority: 2
          limits: { concurrency: 64, requests_per_minute: 1200, tokens_per_minute: 400k, tokens_per_month: 2G }
        constructor: { keys: [], models: [chat-8b], class: interactive }
    `);
    const voice = {
      ttft: { percentileRatio: 0.99, limitMs: 300, perPromptTokenMs: 0.2 },
      tpot: { percentileRatio: 0.999, limitMs: 25 },
      e2e: { percentileRatio: 0.95, limitMs: 8000 },
      tbtMaxMs: 200,
    };
    expect(parsed).toEqual({
      kind: "ok",
      configuration: {
        classes: [{ className: "voice", targets: voice }],
        models: [
          {
            modelId: "chat-8b",
            poolId: "gpus",
            upstreamModel: "meta-llama/Llama-3.1-8B-Instruct",
            contextTokens: 32_768,
          },
          { modelId: "org/tiny", poolId: "gpus", upstreamModel: "org/tiny", contextTokens: 2000 },
        ],
        pools: [
          {
            poolId: "gpus",
            engine: "sluice",
            replicas: [
              { replicaId: "http://gpu-1:8000", endpointUrl: "http://gpu-1:8000", requestsMax: 64 },
              { replicaId: "http://gpu-2:8000", endpointUrl: "http://gpu-2:8000", weight: 3 },
            ],
            queueMax: 1000,
          },
        ],
        tenants: [
          {
            tenantId: "acme",
            modelIds: ["chat-8b", "org/tiny"],
            className: "voice",
            targets: voice,
            shares: [{ poolId: "gpus", weight: 4, guaranteedRatio: 0.2, band: 2 }],
            concurrencyMax: 64,
            requestsPerMinuteMax: 1200,
            tokensPerMinuteMax: 400_000,
            tokensPerMonthMax: 2_000_000_000,
          },
          {
            tenantId: "constructor",
            modelIds: ["chat-8b"],
            className: "interactive",
            targets: BUILT_IN_CLASSES["interactive"],
            shares: [{ poolId: "gpus", weight: 1, guaranteedRatio: 0.7, band: 0 }],
          },
        ],
        keys: [
          {
            hash: HASH,
            tenantId: "acme",
            name: "prod",
            notBeforeAtMs: Date.parse("2026-01-01"),
            expiresAtMs: Date.parse("2027-06-30"),
          },
          { hash: hashKey("sk-plain-text"), tenantId: "acme", name: "dev" },
        ],
      },
    });
  });

  test("resolves a pool of servers that are not ours, its URLs with and without the version", () => {
    const parsed = parse(`
      models: { narrow: { context: 8k, pool: qa, max_running: 1 }, wide: { context: 8k, pool: qa } }
      pools:
        qa:
          engine: openai
          replicas: [{ url: "http://qa-1:9900/v1/", max_running: 2 }, { url: http://qa-2:9900/proxy/v1 }, { url: http://qa-3 }]
          auth: { secret: QA_TOKEN }
          access: { client_id: QA_ACCESS_ID, client_secret: QA_ACCESS_SECRET }
          via: QA_VPC
          health: { eject_after: 3, cooldown_max: 3s, probe: passive }
      tenants: { acme: { keys: [{ name: a, hash: "hmac-sha256:${HASH}" }], models: [narrow], class: chat } }
    `);
    expect(parsed).toMatchObject({ kind: "ok" });
    const pools = parsed.kind === "ok" ? parsed.configuration.pools : [];
    expect(pools).toEqual([
      {
        poolId: "qa",
        engine: "openai",
        replicas: [
          { replicaId: "http://qa-1:9900", endpointUrl: "http://qa-1:9900", requestsMax: 2 },
          { replicaId: "http://qa-2:9900/proxy", endpointUrl: "http://qa-2:9900/proxy" },
          { replicaId: "http://qa-3", endpointUrl: "http://qa-3" },
        ],
        queueMax: 256,
        secretName: "QA_TOKEN",
        transport: {
          via: "QA_VPC",
          access: { idName: "QA_ACCESS_ID", secretName: "QA_ACCESS_SECRET" },
        },
        health: { ejectAfter: 3, cooldownMsMax: 3_000 },
        modelLimits: [{ modelId: "narrow", requestsMax: 1 }],
      },
    ]);
  });

  test("resolves the models of a replica to the names that it knows", () => {
    const parsed = parse(`
      models: { base: { context: 8k, pool: qa, upstream: org/Base }, lora: { context: 8k, pool: qa } }
      pools: { qa: { engine: sglang, replicas: [{ url: http://qa-1, models: [base, lora] }, { url: http://qa-2, models: [base] }] } }
      tenants: { acme: { keys: [], models: [base, lora], class: chat } }
    `);
    const [pool] = parsed.kind === "ok" ? parsed.configuration.pools : [];
    expect(pool?.replicas.map(({ models }) => models)).toEqual([
      ["org/Base", "lora"],
      ["org/Base"],
    ]);
  });

  test("refuses models of replicas that are none of their pool, are there twice, or leave one to nobody", () => {
    expect(poolProblems(", models: [a]")).toEqual([]);
    expect(poolProblems(", models: [a]", ", models: [b]")).toEqual([]);
    expect(poolProblems(", models: [c]")).toEqual([
      expect.stringMatching(/^pools\.qa\.replicas\.0\.models\.0: .*model of its pool/),
    ]);
    expect(poolProblems(", models: [a, a]")).toEqual([
      expect.stringMatching(/^pools\.qa\.replicas\.0\.models\.1: is there twice/),
    ]);
    expect(poolProblems(", models: [a]", ", models: [a]")).toEqual([
      expect.stringMatching(
        /^models\.b\.pool: expected a pool of which a replica lists this model/,
      ),
    ]);
    expect(poolProblems(", models: []")).toEqual([
      expect.stringContaining("a list of 1 to 256 models of its pool"),
    ]);
  });

  test("resolves prices and a spend to whole numbers of a fraction of the currency", () => {
    const priced = MINIMAL.replace(
      "pool: local }",
      'pool: local, price_per_million_tokens: { input: 0.15, cached_input: "0.0375", output: 0.60 } }',
    ).replace("class: chat", "class: chat, limits: { spend_per_month: 99.50 }");
    expect(parse(priced)).toMatchObject({
      configuration: {
        models: [
          {
            price: {
              inputPicosPerToken: 150_000,
              cachedInputPicosPerToken: 37_500,
              outputPicosPerToken: 600_000,
            },
          },
        ],
        tenants: [{ spendPerMonthMaxMicros: 99_500_000 }],
      },
    });
    expect(parse(priced.replace(/cached_input: "[^"]+", /, ""))).toMatchObject({
      configuration: { models: [{ price: { cachedInputPicosPerToken: 150_000 } }] },
    });
  });

  test("refuses a spend over a model without a price, at every such model", () => {
    const document = parseYaml(MINIMAL);
    document.models.small = { context: 1, pool: "local" };
    document.models.tiny.price_per_million_tokens = { input: 0, output: 1 };
    document.tenants.acme.models = ["tiny", "small"];
    expect(problemsOf(document)).toEqual([]);
    document.tenants.acme.limits = { spend_per_month: 5 };
    expect(problemsOf(document)).toEqual([
      "tenants.acme.models.1: expected a model with a price, since limits has spend_per_month: " +
        "models.small.price_per_million_tokens is missing",
    ]);
  });

  test("resolves what a tenant says of its timeouts and attempts, and nothing for auto", () => {
    const timed = MINIMAL.replace(
      "class: chat",
      "class: chat, timeouts: { total: 2m, first_token: 600ms, stall: auto }, attempts: 4, shards: 4",
    );
    expect(parse(timed)).toMatchObject({
      configuration: { tenants: [{ attemptsMax: 4 }] },
    });
    const parsed = parse(timed);
    const [tenant] = parsed.kind === "ok" ? parsed.configuration.tenants : [];
    expect(tenant?.timeouts).toEqual({ totalMs: 120_000, firstTokenMs: 600 });
  });

  test("fills in what a tenant leaves open of its caches, and adds nothing where it says nothing", () => {
    const text = MINIMAL.replace("class: chat", "class: chat, cache: { answers: true }");
    const cache = { prompts: true, answers: true, scope: "tenant" };
    expect(parse(text)).toMatchObject({ configuration: { tenants: [{ cache }] } });
    expect(JSON.stringify(parse(MINIMAL))).not.toContain("cache");
  });

  test.each([true, false])(
    "resolves whether a tenant's answers go on elsewhere: %j",
    (continuation) => {
      const text = MINIMAL.replace("class: chat", `class: chat, continuation: ${continuation}`);
      expect(parse(text)).toMatchObject({ configuration: { tenants: [{ continuation }] } });
      const plain = parse(MINIMAL);
      expect(JSON.stringify(plain)).not.toContain("continuation");
    },
  );

  test("one server is there once, however its URL is spelled", () => {
    const document = parseYaml(MINIMAL);
    document.pools.local = {
      engine: "openai",
      replicas: [{ url: "http://qa:1/v1" }, { url: "http://QA:1" }],
    };
    expect(problemsOf(document)).toEqual([
      "pools.local.replicas.1.url: is there twice: first at pools.local.replicas[0].url, and a server is in one pool",
    ]);
  });

  test.each(["SLUICE_REPLICA_SECRET", "token", "A B", "1_TOKEN", ""])(
    "the secret %j is not one that servers could be sent",
    (secret) => {
      const [problem = ""] = problemsWith("pools.local", {
        engine: "openai",
        replicas: [{ url: "http://qa:1" }],
        auth: { secret },
      });
      expect(problem).toMatch(
        /^pools.local.auth.secret: expected the name of a secret of the Worker/,
      );
    },
  );

  test.each(["SLUICE_REPLICA_SECRET", "vpc", "", "http://10.0.0.1"])(
    "the binding %j is not one by which servers could be reached",
    (via) => {
      const [problem = ""] = problemsWith("pools.local.via", via);
      expect(problem).toMatch(/^pools.local.via: expected the name of a binding of the Worker/);
    },
  );

  test("a service token is two secrets, by their names", () => {
    const whole = { client_id: "GPU_ACCESS_ID", client_secret: "GPU_ACCESS_SECRET" };
    expect(problemsWith("pools.local.access", whole)).toEqual([]);
    const { client_id: id } = whole;
    expect(problemsWith("pools.local.access", { client_id: id })).not.toEqual([]);
    const typed = problemsWith("pools.local.access", { ...whole, client_secret: "s3cr3t-itself" });
    expect(typed.join()).toContain(
      "pools.local.access.client_secret: expected the name of a secret",
    );
    expect(typed.join()).not.toContain("s3cr3t-itself");
  });

  test("our own engines are sent no other secret than theirs", () => {
    expect(problemsWith("pools.local.auth", { secret: "GPU_TOKEN" })).toEqual([
      "pools.local.auth: expected no auth: engine sluice is sent SLUICE_REPLICA_SECRET",
    ]);
  });

  test("takes the file's class instead of the built-in one of the same name", () => {
    const parsed = parse(`${MINIMAL}\nclasses: { chat: { ttft: { p50: 7s } } }`);
    expect(parsed).toMatchObject({
      configuration: { tenants: [{ targets: { ttft: { percentileRatio: 0.5, limitMs: 7000 } } }] },
    });
  });

  test("the configuration that npm start serves is right in local mode, and refused in production", () => {
    const text = readFileSync(resolve(import.meta.dirname, "../../../sluice.local.yaml"), "utf8");
    expect(parse(text)).toMatchObject({
      kind: "ok",
      configuration: { tenants: { length: 3 }, keys: { length: 3 } },
    });
    expect(problemsOf(parseYaml(text), "production")).toEqual([
      "tenants.interactive.keys.0.key: expected a hash: plain keys are for local mode only",
      "tenants.chat.keys.0.key: expected a hash: plain keys are for local mode only",
      "tenants.bulk.keys.0.key: expected a hash: plain keys are for local mode only",
    ]);
  });

  test("tells every problem of a file at once", () => {
    const problems = problemsOf(
      parseYaml(`
        models: { tiny: { context: many, pool: locl } }
        pools: { local: { engine: vlm, replicas: [] } }
        tenants: { acme: { keys: [{ name: prod }], models: [tny], class: chta, weight: 3 } }
        modles: {}
      `),
    );
    expect(problems).toEqual([
      'models.tiny.context: expected a number of tokens from 1 to 10000000, such as 64 or 1k, found "many"',
      "pools.local.engine: expected one of sluice, vllm, sglang, trtllm, tgi, llamacpp, dynamo, ollama, openai, found \"vlm\": did you mean 'vllm'?",
      "pools.local.replicas: expected a list of 1 to 128 replicas, found an empty list",
      'tenants.acme.weight: unknown key "weight": known: keys, models, class, classes, share, priority, limits, cache, timeouts, shards, …',
      "modles: unknown key \"modles\": did you mean 'models'?",
      "models.tiny.pool: expected the name of a pool, found \"locl\": did you mean 'local'?",
      "tenants.acme.models.0: expected the name of a model, found \"tny\": did you mean 'tiny'?",
      "tenants.acme.class: expected the name of a class, found \"chta\": did you mean 'chat'?",
      "tenants.acme.keys.0: expected either a hash or a plain key, found neither",
    ]);
  });

  test("of a pool that there is not, nothing is said but that", () => {
    const tenants = { acme: { keys: [], models: ["tiny"], share: { guaranteed: "95%" } } };
    const problems = problemsOf({ models: { tiny: { pool: "nowhere" } }, pools: {}, tenants });
    expect(problems.filter((problem) => problem.includes("nowhere"))).toEqual([
      expect.stringContaining("models.tiny.pool: "),
    ]);
  });

  test("also what only the parts of a file together show, beside what is wrong with each", () => {
    const problems = problemsOf(
      parseYaml(`
        models: { tiny: { context: many, pool: local } }
        pools: { local: { engine: vlm, replicas: [{ url: "http://127.0.0.1:9101" }] } }
        tenants:
          acme:
            { keys: [{}], models: [tiny], class: chta, share: { guaranteed: 60% },
              limits: { spend_per_month: 20 }, overload: [{ fallback_model: tiny }] }
          globex: { keys: [], models: [tiny], class: chat, share: { guaranteed: 50% }, wrong: 1 }
      `),
    );
    for (const told of [
      "pools.local: expected guarantees of at most 90% of it for all tenants together, found 110%",
      "tenants.acme.models.0: expected a model with a price, since limits has spend_per_month",
      "tenants.acme.overload.0.fallback_model: expected another model than tiny, the only one",
      'tenants.globex.wrong: unknown key "wrong"',
      "tenants.acme.class: expected the name of a class",
    ]) {
      expect(problems).toContainEqual(expect.stringContaining(told));
    }
  });

  test.each([
    ["tenants.acme.classes", "interactive", "a list of at most 8 classes"],
    ["tenants.acme.models", "", "a list of models"],
    ["tenants.acme.overload", "", "a list of 1 to 8 steps"],
    ["pools.local.replicas", "", "a list of 1 to 128 replicas"],
    ["tenants.acme.cors.origins", "x".repeat(40), "a list of at most 32 origins"],
  ])("tells once that %s as %j is no list", (path, value, expected) => {
    const told = problemsWith(path, value).filter((problem) => problem.startsWith(`${path}: `));
    expect(told).toEqual([expect.stringContaining(`expected ${expected}`)]);
  });

  test.each([
    ["pools.local.engine", "vlm", "vllm"],
    ["pools.local.replicas.0.engine", "Ollamma", "ollama"],
    ["tenants.acme.cache.scope", "tenat", "tenant"],
    ["tenants.acme.keys.0.scopes", ["usages"], "usage"],
  ])("tells of %s as %j which word was meant", (path, value, meant) => {
    expect(problemsWith(path, value).join()).toContain(`: did you mean '${meant}'?`);
    const other = JSON.parse(JSON.stringify(value).replaceAll(/[a-z]+/gi, "nothing-near"));
    expect(problemsWith(path, other).join()).not.toContain("did you mean");
  });

  test("of a pool without replicas that is not ours, auth is nothing wrong", () => {
    const auth = { secret: "TOKEN" };
    const told = (engine: string) =>
      problemsWith("pools.p2", { engine, replicas: [], auth }).join("; ");
    expect(told("vllm")).not.toContain("expected no auth");
    expect(told("sluice")).toContain("expected no auth");
  });

  test.each([
    ["models.tiny.context", 0, "a number of tokens"],
    ["models.tiny.context", 1.5, "a number of tokens"],
    ["models.tiny.pool", ["local"], "the name of a pool"],
    ["models.tiny.upstream", "", "a name"],
    ["pools.local.queue_max", 10_001, "a number of requests from 0 to 10000"],
    ["pools.local.queue_max", "-1", "a number of requests from 0 to 10000"],
    ["pools.local.replicas", {}, "a list of 1 to 128 replicas"],
    ["pools.local.replicas.0", "http://host", "a mapping"],
    ["pools.local.replicas.0.url", "ftp://host", "a URL such as"],
    ["pools.local.replicas.0.max_running", 0, "a number of requests"],
    ["pools.local.replicas.0.weight", 0, "a number of parts from 1 to 100"],
    ["pools.local.replicas.0.weight", 1.5, "a number of parts from 1 to 100"],
    ["pools.local.replicas.0.weight", 101, "a number of parts from 1 to 100"],
    ["models.tiny.max_running", 0, "a number of requests"],
    ["pools.local.health.eject_after", 0, "a number of failures in a row from 1 to 100"],
    ["pools.local.health.cooldown_max", "50ms", "a duration from 100ms to 1h"],
    ["pools.local.health.probe", "active", "passive"],
    ["tenants.acme.timeouts.total", "auto", "a duration from 10ms to 10m"],
    ["tenants.acme.timeouts.total", "11m", "a duration from 10ms to 10m"],
    ["tenants.acme.timeouts.first_token", "61s", "auto, or a duration from 10ms to 60s"],
    ["tenants.acme.timeouts.stall", "1ms", "auto, or a duration from 10ms to 10m"],
    ["tenants.acme.timeouts.stall", 600, "auto, or a duration from 10ms to 10m"],
    ["tenants.acme.attempts", 1, "a number of attempts from 2 to 4, found"],
    [
      "pools.local.health.eject_after",
      0,
      "a number of failures in a row from 1 to 100, such as 64, found",
    ],
    ["tenants.acme.attempts", 5, "a number of attempts from 2 to 4"],
    ["tenants.acme.continuation", "yes", "true or false"],
    ["tenants.acme.cache.prompts", "no", "true or false"],
    ["tenants.acme.cache.answers", 1, "true or false"],
    ["tenants.acme.cache.scope", "key", "tenant or user"],
    ["tenants.acme.continuation", 1, "true or false"],
    ["classes", { fast: { ttft: "300ms" } }, "one percentile with its limit"],
    ["classes", { fast: { ttft: {} } }, "one percentile with its limit"],
    ["classes", { fast: { ttft: { p50: "1s", p99: "2s" } } }, "one percentile with its limit"],
    ["classes", { fast: { ttft: { p0: "1s" } } }, "a percentile such as"],
    ["classes", { fast: { ttft: { p100: "1s" } } }, "a percentile such as"],
    ["classes", { fast: { ttft: { p99: 300 } } }, "a duration such as"],
    ["classes", { fast: { ttft: { per_prompt_token: "1ms" } } }, "one percentile with its limit"],
    ["classes", { fast: { ttft: { p99: "1s", per_prompt_token: 1 } } }, "a duration such as"],
    ["classes", { fast: { tpot: { per_prompt_token: "1ms" } } }, "a percentile such as"],
    ["tenants.acme.share", "20%", "a mapping"],
    ["tenants.acme.share", { weight: 0 }, "a number from 0.01 to 1000"],
    ["tenants.acme.share", { weight: "4" }, "a number from 0.01 to 1000"],
    ["tenants.acme.share", { guaranteed: 0.2 }, "a share of at most 90%, such as 20%"],
    ["tenants.acme.share", { guaranteed: "101%" }, "a share of at most 90%, such as 20%"],
    ["tenants.acme.priority", -1, "a band from 0"],
    ["tenants.acme.priority", 10, "a band from 0"],
    ["tenants.acme.priority", 1.5, "a band from 0"],
    ["classes", { fast: { tbt_max: "0ms" } }, "a duration such as"],
    ["classes", { fast: {} }, "at least one target"],
    ["tenants.acme", "hello", "a mapping"],
    ["tenants.acme.keys", null, "a list of keys"],
    ["tenants.acme.models", [], "at least one model"],
    ["tenants.acme.shards", 17, "a number of objects from 1 to 16"],
    ["tenants.acme.class", 3, "a name"],
    ["tenants.acme.limits", { concurrency: "0" }, "a number of requests"],
    ["tenants.acme.limits", { requests_per_minute: 0 }, "a number of requests from 1"],
    ["tenants.acme.limits", { requests_per_minute: "11M" }, "a number of requests from 1"],
    ["tenants.acme.limits", { tokens_per_minute: "0.5" }, "a number of tokens from 1"],
    ["tenants.acme.limits", { tokens_per_minute: "400K" }, "a number of tokens from 1"],
    ["tenants.acme.limits", { tokens_per_month: 0 }, "a number of tokens from 1"],
    [
      "models.tiny.price_per_million_tokens",
      { input: -1, output: 1 },
      "an amount from 0 to 1000000 with",
    ],
    [
      "models.tiny.price_per_million_tokens",
      { input: 0.0000001, output: 1 },
      "an amount from 0 to 1000000 with",
    ],
    [
      "models.tiny.price_per_million_tokens",
      { input: 1, output: 1_000_001 },
      "an amount from 0 to 1000000 with",
    ],
    ["models.tiny.price_per_million_tokens", { input: 1 }, "an amount from 0 to 1000000 with"],
    ["models.tiny.price_per_million_tokens", 3, "a mapping"],
    ["tenants.acme.keys.0.expires", "2027-02-30", "a date such as"],
    ["tenants.acme.keys.0.hash", HASH, "hmac-sha256: and 64 hex digits"],
  ])("refuses %s as %j", (path, value, expected) => {
    const [problem, ...others] = problemsWith(path, value);
    expect(problem).toMatch(
      new RegExp(`^${path.replaceAll(".", "\\.")}[^:]*: expected ${expected}`),
    );
    expect(others).toEqual([]);
  });

  test("counts the sections against their bounds", () => {
    const { modelsMax, replicasPerPoolMax } = CONFIGURATION_LIMITS;
    const model = { context: 1, pool: "local" };
    const models = {
      tiny: model,
      ...Object.fromEntries(Array.from({ length: modelsMax }, (_, index) => [`m${index}`, model])),
    };
    expect(problemsWith("models", models)).toEqual([
      `models: expected a mapping of at most ${modelsMax} entries, found a mapping`,
    ]);
    const replicas = Array.from({ length: replicasPerPoolMax + 1 }, (_, index) => ({
      url: `http://gpu-${index}:8000`,
    }));
    expect(problemsWith("pools.local.replicas", replicas)).toEqual([
      `pools.local.replicas: expected a list of 1 to ${replicasPerPoolMax} replicas, found a list`,
    ]);
    expect(problemsWith("pools.local.replicas", replicas.slice(1))).toEqual([]);
  });

  test("takes over whose tokens stand for tenants", () => {
    const jwks = "https://login.example/.well-known/jwks.json?v=1";
    const issuer = {
      name: "login",
      issuer: "https://login.example",
      audience: "sluice",
      jwksUrl: jwks,
    };
    expect(parse(issuerText(`jwks: "${jwks}"`))).toMatchObject({
      configuration: {
        jwtIssuers: [{ ...issuer, tenantClaim: "tenant", algorithms: ["RS256", "ES256"] }],
      },
    });
    const more = `jwks: "http://127.0.0.1:9/j", tenant_claim: org, algorithms: [EdDSA], tenants: [acme]`;
    expect(parse(issuerText(more))).toMatchObject({
      configuration: {
        jwtIssuers: [{ tenantClaim: "org", algorithms: ["EdDSA"], tenantIds: ["acme"] }],
      },
    });
  });

  test.each([
    ["jwks: http://login.example/jwks.json", "jwks: expected a URL of https"],
    ["jwks: https://user:secret@login.example/", "jwks: expected a URL of https"],
    ["jwks: ftp://login.example/", "jwks: expected a URL of https"],
    ["jwks: https://a/, algorithms: [HS256]", "algorithms.0: expected a signature algorithm"],
    ["jwks: https://a/, algorithms: [none]", "algorithms.0: expected a signature algorithm"],
    ["jwks: https://a/, tenants: [emca]", "tenants.0: expected the name of a tenant"],
    ["jwks: https://a/, secret: x", 'unknown key "secret"'],
  ])("refuses an issuer with %s", (more, problem) => {
    const [found, ...others] = problemsOf(parseYaml(issuerText(more)));
    expect(found).toContain(problem);
    expect(others).toEqual([]);
  });

  test("takes over what a key is limited to", () => {
    const key = `{ name: app, key: sk-limited, scopes: [usage], models: [tiny], classes: [chat] }`;
    const text = `
      models: { tiny: { context: 1k, pool: local }, big: { context: 1k, pool: local } }
      pools: { local: { engine: sluice, replicas: [{ url: http://gpu:1 }] } }
      tenants: { acme: { models: [tiny, big], class: chat, keys: [${key}] } }`;
    expect(parse(text)).toMatchObject({
      configuration: {
        keys: [{ scopes: ["usage"], modelIds: ["tiny"], classNames: ["chat"] }],
      },
    });
  });

  test.each([
    ["scopes", ["root"], 'scopes[0]: expected a scope: inference, usage, admin, found "root"'],
    ["scopes", [], "scopes: expected a list of at least one of its scopes, found an empty list"],
    ["scopes", ["usage", "usage"], "scopes[1]: is there twice: first at"],
    ["models", ["other"], 'models[0]: expected the name of a model of its tenant, found "other"'],
    ["classes", ["bulk"], 'classes[0]: expected the name of a class of its tenant, found "bulk"'],
  ])("refuses a key whose %s are %j", (name, value, problem) => {
    const [found = "", ...others] = problemsWith(`tenants.acme.keys.0.${name}`, value);
    expect(found.replaceAll(/\.(\d)/g, "[$1]")).toContain(problem);
    expect(others).toEqual([]);
  });

  test("counts the keys of all tenants against one bound", () => {
    const { keysMax } = CONFIGURATION_LIMITS;
    const keys = Array.from({ length: keysMax + 1 }, (_, index) => ({
      name: `k${index}`,
      hash: `hmac-sha256:${String(index).padStart(64, "0")}`,
    }));
    expect(
      problemsOf({
        ...parseYaml(MINIMAL),
        tenants: { acme: { keys, models: ["tiny"], class: "chat" } },
      }),
    ).toEqual([
      `tenants: expected at most ${keysMax} keys of all tenants together, found ${keysMax + 1}`,
    ]);
  });
});

describe("parseConfiguration(), identities", () => {
  test("refuses a replica that is there twice, however it is spelled and in whichever pool", () => {
    const replica = { url: "HTTP://127.0.0.1:9101/" };
    expect(problemsWith("pools.other", { engine: "sluice", replicas: [replica] })).toEqual([
      "pools.other.replicas.0.url: is there twice: first at pools.local.replicas[0].url, and a server is in one pool",
    ]);
  });

  test("refuses a key that two tenants have, be it hashed or in plain text", () => {
    const keys = [{ name: "prod", key: "sk-plain-text" }];
    const hashed = [{ name: "prod", hash: `hmac-sha256:${hashKey("sk-plain-text")}` }];
    const tenants = {
      one: { keys, models: ["tiny"], class: "chat" },
      two: { keys: hashed, models: ["tiny"], class: "chat" },
    };
    expect(problemsWith("tenants", tenants)).toEqual([
      "tenants.two.keys.0.hash: is there twice: first at tenants.one.keys[0].key",
    ]);
  });

  test("refuses two keys of one name in a tenant, and a model that a tenant lists twice", () => {
    const keys = ["sk-plain-1", "sk-plain-2"].map((key) => ({ name: "prod", key }));
    expect(problemsWith("tenants.acme.keys", keys)).toEqual([
      "tenants.acme.keys.1.name: is there twice: first at tenants.acme.keys[0].name",
    ]);
    expect(problemsWith("tenants.acme.models", ["tiny", "tiny"])).toEqual([
      "tenants.acme.models.1: is there twice: first at tenants.acme.models[0]",
    ]);
  });

  test("refuses a key that is both hashed and in plain text", () => {
    const key = { name: "prod", hash: `hmac-sha256:${HASH}`, key: "sk-plain-text" };
    expect(problemsWith("tenants.acme.keys.0", key)).toEqual([
      "tenants.acme.keys.0: expected either a hash or a plain key, found both",
    ]);
  });

  test("refuses a key that expires before it is valid", () => {
    const key = {
      name: "prod",
      hash: `hmac-sha256:${HASH}`,
      not_before: "2027-01-01",
      expires: "2027-01-01",
    };
    expect(problemsWith("tenants.acme.keys.0", key)).toEqual([
      "tenants.acme.keys.0.expires: expected a day after not_before",
    ]);
  });

  test.each(["__proto__", "has space", "-dash", "a/b", "", "x".repeat(65), "naïve", "a\nb"])(
    "refuses %j as the name of a tenant",
    (name) => {
      const tenant = { keys: [], models: ["tiny"], class: "chat" };
      const tenants = Object.fromEntries([[name, tenant]]);
      const [problem, ...others] = problemsWith("tenants", tenants);
      expect(problem).toMatch(/: expected a name of at most 64/);
      expect(others).toEqual([]);
    },
  );

  test.each(["constructor", "toString", "hasOwnProperty"])(
    "does not mistake the inherited name %s for one of the file",
    (name) => {
      expect(problemsWith("models.tiny.pool", name)).toHaveLength(1);
      expect(problemsWith("tenants.acme.class", name)).toHaveLength(1);
      expect(problemsWith(name, {})).toHaveLength(1);
    },
  );

  test.each([
    ["models", "model"],
    ["pools", "pool"],
    ["tenants", "tenant"],
  ])("%s without an entry is a problem", (name, entry) => {
    expect(problemsWith(name, {})).toContain(
      `${name}: expected at least one ${entry}, found an empty mapping`,
    );
  });

  test.each([
    ["x", "one other character"],
    ["xy", "2 other characters"],
  ])("a hash %j is told by its length: %s", (hash, found) => {
    expect(problemsWith("tenants.acme.keys.0.hash", hash)).toEqual([
      `tenants.acme.keys.0.hash: expected hmac-sha256: and 64 hex digits, found ${found}`,
    ]);
  });

  test("a mapping cannot change what others inherit", () => {
    const document: unknown = JSON.parse(
      '{"__proto__": {"models": {}}, "models": {"__proto__": 1}}',
    );
    expect(problemsOf(document).join("\n")).toContain("__proto__");
    expect(Object.hasOwn(Object.prototype, "models")).toBe(false);
  });
});

describe("parseConfiguration(), messages", () => {
  test("never repeats a key, a hash or a password", () => {
    const secret = "hunter2hunter2";
    const problems = [
      ...problemsWith("tenants.acme.keys.0.key", `not-a-key-${secret}`),
      ...problemsWith("tenants.acme.keys.0.hash", `sk-${secret}`),
      ...problemsWith("tenants.acme.keys.0", { name: "p", key: `sk-${secret}` }, "production"),
      ...problemsWith("pools.local.replicas.0.url", `http://me:${secret}@host`),
      ...problemsWith("pools.local.replicas.0.url", `http://me:a/b@${secret}@host`),
    ];
    expect(problems.length).toBeGreaterThanOrEqual(5);
    expect(problems.join("\n")).not.toContain(secret);
  });

  test("repeats a long value in part only", () => {
    const [problem = ""] = problemsWith("models.tiny.pool", "x".repeat(100_000));
    expect(problem.length).toBeLessThan(250);
  });

  test.each([[null], [[]], ["text"], [42]])(
    "asks for a mapping where the document is %j",
    (document) => {
      const [problem] = problemsOf(document);
      expect(problem).toMatch(/^: expected a mapping, found /);
    },
  );
});

describe("parseConfiguration(), any document", () => {
  test("either yields a configuration or says what is wrong, and never throws", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (document) => {
        expect(problemsOf(document).length).toBeGreaterThan(0);
      }),
    );
  });

  test("never accepts a document with a key that is nowhere in the schema", () => {
    const places = [
      "",
      "models.tiny.",
      "pools.local.",
      "pools.local.replicas.0.",
      "tenants.acme.",
      "tenants.acme.keys.0.",
    ];
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.string({ minLength: 1 }), (place, key) => {
        fc.pre(!key.includes(".") && !KNOWN_KEYS.has(key));
        expect(problemsWith(`${place}${key}`, 1).length).toBeGreaterThan(0);
      }),
    );
    expect(problemsOf(parseYaml(MINIMAL))).toEqual([]);
  });
});

const KNOWN_KEYS = new Set([
  "models",
  "pools",
  "classes",
  "tenants",
  "context",
  "pool",
  "upstream",
  "engine",
  "replicas",
  "queue_max",
  "url",
  "max_running",
  "keys",
  "class",
  "limits",
  "share",
  "priority",
  "name",
  "hash",
  "key",
  "not_before",
  "expires",
]);
