import { describe, expect, test } from "vitest";
import { isPortTaken, parseReadyLine, planEngineChild } from "../../../cli/stack/engine-child.ts";

const PLAN = {
  name: "replica-1",
  poolId: "local",
  endpointUrl: "http://127.0.0.1:9101",
  host: "127.0.0.1",
  port: 9101,
  upstreamModel: "up-tiny",
};
const OPTIONS = {
  precision: "f32",
  runtime: "wasm",
  kvHostMib: 0,
  modelFolder: undefined,
  buildFolder: "/run/engine",
  replicaSecret: "the-secret-between-gateway-and-engine",
  gatewaySocketUrl: "ws://127.0.0.1:8787",
};

describe("planEngineChild()", () => {
  test("an engine listens where the configuration says and reports to its pool", () => {
    const words = planEngineChild(PLAN, OPTIONS).command.join(" ");
    expect(words).toContain("--host 127.0.0.1 --port 9101");
    expect(words).toContain("--pool-url ws://127.0.0.1:8787/internal/pools/local");
    expect(words).toContain("--advertise-url http://127.0.0.1:9101");
    expect(words).toContain("--model-name up-tiny --");
    expect(words).toContain("--precision f32 --runtime wasm");
  });

  test("an engine refuses requests without a cache salt, and does not outlive us", () => {
    const { command } = planEngineChild(PLAN, OPTIONS);
    expect(command).toContain("--require-salt");
    expect(command).toContain("--exit-with-stdin");
  });

  test("an engine fetches KV from those of its own pool, where it has memory for it", () => {
    const others = [
      { ...PLAN, endpointUrl: "http://127.0.0.1:9102" },
      { ...PLAN, endpointUrl: "http://127.0.0.1:9103", poolId: "another" },
      { ...PLAN, endpointUrl: "http://127.0.0.1:9104" },
    ];
    const wordsOf = (kvHostMib: number, engines = [PLAN, ...others]) =>
      planEngineChild(PLAN, { ...OPTIONS, kvHostMib }, engines).command.join(" ");
    expect(wordsOf(32)).toContain(
      "--kv-host-mib 32 --kv-peers http://127.0.0.1:9102,http://127.0.0.1:9104 --",
    );
    expect(wordsOf(32, [PLAN])).toContain("--kv-host-mib 32 --require-salt");
    expect(wordsOf(0)).not.toContain("--kv-");
  });

  test("an engine is told its role with those whom it may ask", () => {
    const other = { ...PLAN, endpointUrl: "http://127.0.0.1:9102" };
    const plan = { ...PLAN, role: "decode" } as const;
    const words = planEngineChild(plan, { ...OPTIONS, kvHostMib: 32 }, [plan, other]).command;
    expect(words.join(" ")).toContain("--kv-peers http://127.0.0.1:9102 --role decode");
    expect(planEngineChild(PLAN, OPTIONS).command).not.toContain("--role");
  });

  test("the secret is in its environment and nowhere else", () => {
    const plan = planEngineChild(PLAN, OPTIONS);
    expect(plan.environment["SLUICE_REPLICA_SECRET"]).toBe(OPTIONS.replicaSecret);
    expect(plan.command.join(" ")).not.toContain(OPTIONS.replicaSecret);
  });

  test("its programs are the compiled ones", () => {
    const { environment } = planEngineChild(PLAN, OPTIONS);
    expect(environment["SLUICE_ENGINE_BUILD"]).toBe(OPTIONS.buildFolder);
  });

  test("a model folder is passed on, and none is the engine's own model", () => {
    expect(planEngineChild(PLAN, OPTIONS).command).not.toContain("--model");
    const { command } = planEngineChild(PLAN, { ...OPTIONS, modelFolder: "/models/a" });
    expect(command[command.indexOf("--model") + 1]).toBe("/models/a");
  });
});

const failed = (message: string) =>
  JSON.stringify({ level: "error", event: "start-failed", message });

test("an engine that found its port taken is told from one with another trouble", () => {
  const taken = failed("Port 9101 on 127.0.0.1 is taken: choose another one with --port");
  expect(isPortTaken(taken)).toBe(true);
  expect(isPortTaken(failed("No model at /models/a"))).toBe(false);
  expect(isPortTaken(taken.replace("start-failed", "ready"))).toBe(false);
});

describe("parseReadyLine()", () => {
  const FACTS = {
    model: "m",
    parameters: 5,
    precision: "int8",
    runtime: "wasm",
    weightBytes: 20,
    kvPoolBytes: 300,
    kvPoolTokens: 16,
    scratchBytes: 7,
    readyMs: 1.5,
  };

  test("only what the terminal shows is taken from the line", () => {
    const line = JSON.stringify({ level: "info", event: "ready", ...FACTS, url: "http://x" });
    expect(parseReadyLine(line)).toEqual(FACTS);
  });

  test.each([
    "",
    "ready",
    "{",
    "null",
    JSON.stringify({ event: "draining", ...FACTS }),
    JSON.stringify({ event: "ready" }),
  ])("%j does not say that an engine is ready", (line) => {
    expect(parseReadyLine(line)).toBeUndefined();
  });
});
