import { describe, expect, test } from "vitest";
import { LiveConfiguration, LiveModel } from "../../../src/tenants/live-configuration.ts";
import { planStack } from "../../../cli/stack/stack-plan.ts";

/** A configuration of pools by their replicas' URLs; each serves one model of its own name. */
function aConfiguration(
  pools: Record<string, readonly string[]>,
  extraModels: readonly LiveModel[] = [],
  engine = "sluice",
): LiveConfiguration {
  const names = Object.keys(pools);
  return LiveConfiguration.parse({
    models: [...names.map((name) => aModel(name, name)), ...extraModels],
    pools: names.map((name) => ({
      poolId: name,
      engine,
      replicas: pools[name]?.map((url) => ({ replicaId: url, endpointUrl: url })),
      queueMax: 8,
    })),
    tenants: [],
    keys: [],
  });
}

const aModel = (modelId: string, poolId: string, upstreamModel = `up-${modelId}`) =>
  LiveModel.parse({ modelId, poolId, upstreamModel, contextTokens: 2048 });

function planned(...args: Parameters<typeof planStack>) {
  const result = planStack(...args);
  if (result.kind === "invalid") throw new Error(result.problem);
  return result.plan;
}

function problemOf(...args: Parameters<typeof planStack>) {
  const result = planStack(...args);
  if (result.kind === "ok") throw new Error("expected a problem");
  return result.problem;
}

const rolesOf = (...args: Parameters<typeof planStack>) =>
  planned(...args).engines.map(({ port, role }) => `${port} ${role}`);

const LOCAL = ["http://127.0.0.1:9101", "http://127.0.0.1:9102"];

describe("planStack()", () => {
  test("every loopback replica becomes one engine that serves its pool's model", () => {
    const configuration = aConfiguration({
      far: ["https://gpu-1.internal:8000"],
      near: LOCAL,
      six: ["http://[::1]:9103", "http://localhost"],
    });
    const plan = planned(configuration, undefined);
    expect(plan.configuration).toBe(configuration);
    expect(plan.engines).toEqual([
      {
        name: "replica-1",
        poolId: "near",
        endpointUrl: "http://127.0.0.1:9101",
        host: "127.0.0.1",
        port: 9101,
        upstreamModel: "up-near",
      },
      expect.objectContaining({ name: "replica-2", port: 9102 }),
      expect.objectContaining({ name: "replica-3", poolId: "six", host: "::1", port: 9103 }),
      expect.objectContaining({ name: "replica-4", host: "localhost", port: 80 }),
    ]);
  });

  test("a replica that an engine of ours cannot be is left alone", () => {
    const configuration = aConfiguration({
      near: ["https://127.0.0.1:1", "http://127.0.0.1:2/v1", "http://127.evil.example:3", ...LOCAL],
    });
    expect(planned(configuration, undefined).engines.map((engine) => engine.port)).toEqual([
      9101, 9102,
    ]);
  });

  test("servers that are not ours are nobody's to start, on whatever machine", () => {
    const configuration = aConfiguration({ qa: LOCAL }, [], "openai");
    expect(planned(configuration, undefined)).toEqual({ engines: [], configuration });
    expect(problemOf(configuration, 1)).toMatch(/^--replicas needs exactly one pool/);
  });

  test("fewer replicas leave the first ones, in the configuration as well", () => {
    const plan = planned(aConfiguration({ far: ["https://far.example"], near: LOCAL }), 1);
    expect(plan.engines.map((engine) => engine.port)).toEqual([9101]);
    expect(plan.configuration.pools.map((pool) => pool.replicas.length)).toEqual([1, 1]);
  });

  test("more replicas take the ports after the last one", () => {
    const plan = planned(aConfiguration({ near: LOCAL }), 4);
    expect(plan.engines.map((engine) => engine.endpointUrl)).toEqual([
      ...LOCAL,
      "http://127.0.0.1:9103",
      "http://127.0.0.1:9104",
    ]);
    expect(LiveConfiguration.parse(plan.configuration)).toEqual(plan.configuration);
  });

  test("a number of replicas needs exactly one pool to hold them", () => {
    expect(problemOf(aConfiguration({ far: ["https://far.example"] }), 2)).toContain("found 0");
    expect(
      problemOf(aConfiguration({ a: ["http://127.0.0.1:1"], b: ["http://127.0.0.1:2"] }), 2),
    ).toContain("found 2");
  });

  test("two names of one model are one engine's, two models are not", () => {
    const alias = aModel("alias", "near", "up-near");
    expect(planned(aConfiguration({ near: LOCAL }, [alias]), undefined).engines).toHaveLength(2);
    const other = aModel("other", "near");
    expect(problemOf(aConfiguration({ near: LOCAL }, [other]), undefined)).toBe(
      'Pool "near" serves "up-near" and "up-other": an engine holds one model',
    );
  });

  test("a configuration without an engine to start is no plan", () => {
    expect(problemOf(aConfiguration({ far: ["https://far.example"] }), undefined)).toContain(
      "loopback",
    );
  });

  test("engines are counted before any is started", () => {
    const urls = Array.from({ length: 17 }, (_, index) => `http://127.0.0.1:${9101 + index}`);
    expect(planned(aConfiguration({ near: urls.slice(1) }), undefined).engines).toHaveLength(16);
    expect(problemOf(aConfiguration({ near: urls }), undefined)).toContain("17 engines");
  });

  test("replicas beyond the last port there is are no plan", () => {
    const last = aConfiguration({ near: ["http://127.0.0.1:65535"] });
    expect(problemOf(last, 2)).toContain("65535");
  });

  test("roles are those of the engines in order, and count them where nothing else does", () => {
    const configuration = aConfiguration({ a: LOCAL });
    expect(rolesOf(configuration, undefined, ["prefill", "decode", "mixed"])).toEqual([
      "9101 prefill",
      "9102 decode",
      "9103 mixed",
    ]);
    expect(rolesOf(configuration, 2, ["mixed", "decode"])).toEqual(["9101 mixed", "9102 decode"]);
  });

  test("roles that could not work together are refused", () => {
    const configuration = aConfiguration({ a: LOCAL });
    expect(problemOf(configuration, 3, ["prefill", "decode"])).toBe(
      "--roles names 2 roles, and there are 3 engines",
    );
    expect(problemOf(configuration, undefined, ["prefill", "prefill"])).toBe(
      "--roles has nobody decode: expected decode or mixed",
    );
    expect(problemOf(configuration, undefined, ["decode"])).toBe(
      "--roles has nobody compute prompts: expected prefill or mixed",
    );
  });
});
