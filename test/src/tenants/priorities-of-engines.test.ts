import { expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { ENGINES, PRIORITY_ENGINES } from "../../../src/protocol/engine-kind.ts";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";
import { formatPath } from "../../../src/tenants/references.ts";

/** A pool of two servers, with more said of the pool and of each of them. */
function parsed(pool: string, ...replicas: readonly string[]) {
  const listed = replicas.map((more, index) => `{ url: "http://gpu-${index}:8000"${more} }`);
  return parseConfiguration(
    parseYaml(`
      models: { a: { context: 8k, pool: gpus } }
      pools: { gpus: { ${pool}, replicas: [${listed.join(", ")}] } }
      tenants: { acme: { keys: [], models: [a], class: chat } }`),
    { mode: "local", hashKey: (key) => key },
  );
}

/** Which of the servers are told priorities, or what is wrong. */
function toldOf(...words: Parameters<typeof parsed>): unknown {
  const result = parsed(...words);
  if (result.kind !== "ok") {
    return result.problems.map(({ path, message }) => `${formatPath(path)}: ${message}`);
  }
  return result.configuration.pools[0]?.replicas.map(({ takesPriorities }) => takesPriorities);
}

test("servers are told how urgent a request is where that is asked for: of a pool, or of one of them", () => {
  expect(toldOf("engine: vllm", "", "")).toEqual([undefined, undefined]);
  expect(toldOf("engine: vllm, priorities: true", "", "")).toEqual([true, true]);
  expect(toldOf("engine: vllm, priorities: true", "", ", priorities: false")).toEqual([
    true,
    undefined,
  ]);
  expect(toldOf("engine: sglang", "", ", priorities: true")).toEqual([undefined, true]);
});

test.each(ENGINES)("an order is asked of %s only if it has one", (engine) => {
  const refusal =
    "pools.gpus.replicas[0].priorities: " +
    `expected engine vllm, sglang, trtllm, dynamo, found ${engine}, which takes none`;
  const isAble = PRIORITY_ENGINES.some((able) => able === engine);
  expect(toldOf(`engine: ${engine}`, ", priorities: true")).toEqual([isAble ? true : refusal]);
});

test("a pool with a server in it that takes none says which one is to be left out", () => {
  const more = ", engine: openai";
  expect(toldOf("engine: vllm, priorities: true", "", more)).toEqual([
    "pools.gpus.priorities: expected engine vllm, sglang, trtllm, dynamo, found openai, which takes none: " +
      'say "priorities: false" at pools.gpus.replicas[1]',
  ]);
  expect(toldOf("engine: vllm, priorities: true", "", `${more}, priorities: false`)).toEqual([
    true,
    undefined,
  ]);
  expect(toldOf("engine: vllm, priorities: 1", "")).toEqual([
    expect.stringContaining("expected true or false"),
  ]);
});
