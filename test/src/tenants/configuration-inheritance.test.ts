import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";
import type { LiveTenant } from "../../../src/tenants/live-configuration.ts";

const RULES = {
  mode: "local",
  hashKey: (key: string) => key.padEnd(64, "0").slice(0, 64),
} as const;
const hashOf = (digit: string) => `"hmac-sha256:${digit.repeat(64)}"`;

const SHARED = `
models:
  big: { context: 8k, pool: gpus, aliases: [gpt-4o] }
  small: { context: 2k, pool: cpus }
pools:
  gpus: { engine: sluice, replicas: [{ url: "http://127.0.0.1:9101" }] }
  cpus: { engine: sluice, replicas: [{ url: "http://127.0.0.1:9102" }] }
`;
const KEYS_A = `keys: [{ name: k, hash: ${hashOf("a")} }]`;
const KEYS_B = `keys: [{ name: k, hash: ${hashOf("b")} }]`;

const withLadder = (ladder: string) =>
  `tenants: { a: { ${KEYS_A}, models: [big], class: chat, overload: ${ladder} } }`;
const withOrigin = (origin: string) =>
  `tenants: { a: { ${KEYS_A}, models: [big], class: chat, cors: { origins: ["${origin}"] } } }`;
const priced = (cached: string) =>
  SHARED.replace(
    "pool: cpus }",
    `pool: cpus, price_per_million_tokens: { input: 0.15, cached_input: ${cached}, output: 1 } }`,
  );

function problemsOf(text: string): string[] {
  const parsed = parseConfiguration(parseYaml(SHARED + text), RULES);
  if (parsed.kind === "ok") return [];
  return parsed.problems.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

const priceProblems = (cached: string) => {
  const text = `${priced(cached)}tenants: { a: { ${KEYS_A}, models: [big], class: chat } }`;
  const parsed = parseConfiguration(parseYaml(text), RULES);
  return parsed.kind === "ok" ? [] : parsed.problems.map(({ message }) => message);
};

function tenantsOf(text: string): ReadonlyMap<string, LiveTenant> {
  const parsed = parseConfiguration(parseYaml(SHARED + text), RULES);
  if (parsed.kind === "invalid") throw new Error(JSON.stringify(parsed.problems));
  return new Map(parsed.configuration.tenants.map((tenant) => [tenant.tenantId, tenant]));
}

describe("defaults", () => {
  test("are every tenant's, but for what it says itself", () => {
    const tenants = tenantsOf(`
defaults:
  models: [big]
  class: chat
  priority: 2
  limits: { concurrency: 8, requests_per_minute: 60 }
  timeouts: { total: 60s }
  cache: { scope: user, prompts: false }
  overload: [{ queue: 50% }, reject]
tenants:
  plain: { ${KEYS_A} }
  own:
    ${KEYS_B}
    models: [small]
    class: bulk
    limits: { concurrency: 2 }
    cache: { prompts: true }
    overload: [{ clamp_max_tokens: 64 }]
`);
    expect(tenants.get("plain")).toMatchObject({
      modelIds: ["big"],
      className: "chat",
      concurrencyMax: 8,
      requestsPerMinuteMax: 60,
      timeouts: { totalMs: 60_000 },
      overload: [{ kind: "queue", ratio: 0.5 }, { kind: "reject" }],
      shares: [{ poolId: "gpus", band: 2 }],
    });
    expect(tenants.get("own")).toMatchObject({
      modelIds: ["small"],
      className: "bulk",
      concurrencyMax: 2,
      // A mapping is inherited key by key, a list is replaced.
      requestsPerMinuteMax: 60,
      cache: { scope: "user", prompts: true },
      overload: [{ kind: "clamp", outputTokensMax: 64 }],
      shares: [{ poolId: "cpus", band: 2 }],
    });
  });

  test("count for what is guaranteed of a pool, as if each tenant said so", () => {
    const problems = problemsOf(`
defaults: { models: [big], class: chat, share: { guaranteed: 50% } }
tenants: { a: { ${KEYS_A} }, b: { ${KEYS_B} } }
`);
    expect(problems).toEqual([
      "pools.gpus: expected guarantees of at most 90% of it for all tenants together, found 100%",
    ]);
  });

  test("are told once, where they stand, whatever is wrong with them", () => {
    const problems = problemsOf(`
defaults: { models: [bigg], class: caht, limits: { concurency: 1 }, keys: [], timeouts: { total: 1 } }
tenants: { a: { ${KEYS_A} }, b: { ${KEYS_B} } }
`);
    expect(problems).toEqual([
      "defaults.limits.concurency: unknown key \"concurency\": did you mean 'concurrency'?",
      "defaults.timeouts.total: expected a duration from 10ms to 10m, such as 120s, found 1",
      'defaults.keys: unknown key "keys": known: models, class, classes, share, priority, limits, cache, timeouts, shards, attempts, …',
      "defaults.models.0: expected the name of a model, found \"bigg\": did you mean 'big'?",
      "defaults.class: expected the name of a class, found \"caht\": did you mean 'chat'?",
    ]);
  });

  test("that limit a spend want a price of all models that anybody may be sent to", () => {
    const problems = problemsOf(`
defaults: { class: chat, limits: { spend_per_month: 5 } }
tenants:
  a: { ${KEYS_A}, models: [big], overload: [{ fallback_model: small }] }
`);
    expect(problems).toEqual(
      ["models.0", "overload.0.fallback_model"].map(
        (path, index) =>
          `tenants.a.${path}: expected a model with a price, since limits has spend_per_month: ` +
          `models.${["big", "small"][index]}.price_per_million_tokens is missing`,
      ),
    );
  });

  test("or the tenant itself must say which models and which class", () => {
    expect(problemsOf(`tenants: { a: { ${KEYS_A} } }`)).toEqual([
      "tenants.a.models: expected a list of models, here or in defaults, found nothing",
      "tenants.a.class: expected the name of a class, here or in defaults, found nothing",
    ]);
  });
});

describe("overload", () => {
  test("is a ladder of what happens before a refusal", () => {
    const ladder =
      "[{ queue: 60% }, { clamp_max_tokens: 1k }, { fallback_model: small }, { queue: 90% }, reject]";
    const tenant = tenantsOf(withLadder(ladder)).get("a");
    expect(tenant?.overload).toEqual([
      { kind: "queue", ratio: 0.6 },
      { kind: "clamp", outputTokensMax: 1000 },
      { kind: "fallback", modelId: "small" },
      { kind: "queue", ratio: 0.9 },
      { kind: "reject" },
    ]);
    // It has a place among those of the other pool, but nothing is guaranteed to it there.
    expect(tenant?.shares).toMatchObject([
      { poolId: "gpus" },
      { poolId: "cpus", guaranteedRatio: 0 },
    ]);
  });

  test("may refuse at once", () => {
    for (const ladder of ["[reject]", "[{ queue: 0 }]", "[{ queue: 0% }, reject]"]) {
      expect(problemsOf(withLadder(ladder))).toEqual([]);
    }
  });

  const STEP =
    "expected one of { queue: 60% }, { clamp_max_tokens: 256 }, { fallback_model: MODEL } and reject";

  test.each([
    ["[wait]", [`0: ${STEP}, found "wait"`]],
    ["[{}]", [`0: ${STEP}, found an empty mapping`]],
    ["[{ queue: 60%, clamp_max_tokens: 8 }]", [`0: ${STEP}, found a mapping`]],
    [
      "[{ queue: 60 }]",
      ["0.queue: expected a share of the time to the target such as 60%, or 0, found 60"],
    ],
    ["[{ quue: 60% }]", ["0.quue: unknown key \"quue\": did you mean 'queue'?"]],
    [
      "[{ queue: 0%, clamp: 1 }]",
      ['0.clamp: unknown key "clamp": known: queue, clamp_max_tokens, fallback_model'],
    ],
    [
      "[{ clamp_max_tokens: 0 }]",
      [
        "0.clamp_max_tokens: expected a number of tokens from 1 to 10000000, such as 64 or 1k, found 0",
      ],
    ],
    [
      "[{ fallback_model: smal }]",
      ["0.fallback_model: expected the name of a model, found \"smal\": did you mean 'small'?"],
    ],
    [
      "[{ fallback_model: big }]",
      ["0.fallback_model: expected another model than big, the only one of tenant a"],
    ],
    ["[reject, { queue: 60% }]", ["0: expected reject as the last step: nothing comes behind it"]],
    [
      "[{ queue: 60% }, { queue: 60% }]",
      ["1.queue: expected a larger share than that of the queue step before"],
    ],
    [
      "[{ clamp_max_tokens: 8 }, { clamp_max_tokens: 8 }]",
      ["1.clamp_max_tokens: expected fewer tokens than those of the clamp_max_tokens before"],
    ],
    [
      "[{ fallback_model: small }, { fallback_model: small }]",
      ["1.fallback_model: is there twice: first at tenants.a.overload[0].fallback_model"],
    ],
  ])("refuses %s and says why", (ladder, expected) => {
    expect(problemsOf(withLadder(ladder))).toEqual(
      expected.map((problem) => `tenants.a.overload.${problem}`),
    );
  });
});

describe("further names and promises", () => {
  test("a model's aliases are names that nothing else has", () => {
    expect(problemsOf(`tenants: { a: { ${KEYS_A}, models: [big], class: chat } }`)).toEqual([]);
    const twice = SHARED.replace("pool: cpus }", "pool: cpus, aliases: [gpt-4o, big] }");
    const parsed = parseConfiguration(
      parseYaml(`${twice}tenants: { a: { ${KEYS_A}, models: [big], class: chat } }`),
      RULES,
    );
    expect(parsed).toEqual({
      kind: "invalid",
      problems: [
        {
          path: ["models", "small", "aliases", 0],
          message: "is there twice: first at models.big.aliases[0]",
        },
        { path: ["models", "small", "aliases", 1], message: "is there twice: first at models.big" },
      ],
    });
  });

  test("a tenant's classes are those that its requests may ask for beside its own", () => {
    const tenant = tenantsOf(
      `tenants: { a: { ${KEYS_A}, models: [big], class: chat, classes: [chat, bulk] } }`,
    ).get("a");
    expect(tenant).toMatchObject({
      className: "chat",
      classes: [{ className: "bulk", targets: { ttft: { limitMs: 10_000 } } }],
    });
    expect(
      problemsOf(
        `tenants: { a: { ${KEYS_A}, models: [big], class: chat, classes: [blk, chat, chat] } }`,
      ),
    ).toEqual([
      "tenants.a.classes.0: expected the name of a class, found \"blk\": did you mean 'bulk'?",
      "tenants.a.classes.2: is there twice: first at tenants.a.classes[1]",
    ]);
  });

  test("a tenant's pages are given by their origins, as browsers write them", () => {
    for (const origin of ["https://app.example", "http://localhost:3000"]) {
      expect(tenantsOf(withOrigin(origin)).get("a")?.origins).toEqual([origin]);
    }
    for (const origin of [
      "https://app.example/",
      "https://App.example",
      "app.example",
      "*",
      "null",
    ]) {
      expect(problemsOf(withOrigin(origin))).toEqual([
        "tenants.a.cors.origins.0: expected an origin such as https://app.example, in lower case and " +
          `without a path, found "${origin}"`,
      ]);
    }
  });

  test("what was cached costs no more than what was not", () => {
    expect(priceProblems("0.15")).toEqual([]);
    expect(priceProblems('"0.16"')).toEqual([
      "expected at most the price of input, 0.15, found 0.16",
    ]);
  });
});
