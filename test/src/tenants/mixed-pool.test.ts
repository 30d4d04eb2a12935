import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { replicaSettingsOf } from "../../../src/pool/replica-settings.ts";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";

const parse = (pool: string) =>
  parseConfiguration(
    parseYaml(`
models: { m: { context: 8k, pool: gpus } }
pools: { gpus: ${pool} }
tenants:
  a: { keys: [{ name: k, hash: "hmac-sha256:${"a".repeat(64)}" }], models: [m], class: chat }
`),
    { mode: "production", hashKey: (key: string) => key },
  );

const problems = (pool: string): readonly string[] => {
  const parsed = parse(pool);
  return parsed.kind === "ok" ? [] : parsed.problems.map(({ path }) => path.join("."));
};

describe("a pool of several kinds of servers", () => {
  test("knows each replica by its own kind, and by the pool's where it says none", () => {
    const parsed = parse(`{ engine: sluice, auth: { secret: GPU_TOKEN }, replicas: [
      { url: "http://127.0.0.1:9101" },
      { url: "http://127.0.0.1:9102/v1", engine: vllm },
      { url: "http://127.0.0.1:9103", engine: sluice } ] }`);
    if (parsed.kind !== "ok") throw new Error(JSON.stringify(parsed.problems));
    const [pool] = parsed.configuration.pools;
    if (pool === undefined) throw new Error("There is a pool");
    const plain = { engine: "vllm", secretName: "GPU_TOKEN" };
    expect(replicaSettingsOf(pool)).toEqual([
      { replicaId: "http://127.0.0.1:9101", endpointUrl: "http://127.0.0.1:9101" },
      { replicaId: "http://127.0.0.1:9102", endpointUrl: "http://127.0.0.1:9102", plain },
      { replicaId: "http://127.0.0.1:9103", endpointUrl: "http://127.0.0.1:9103" },
    ]);
  });

  test("has a secret only where it is sent to somebody, and one replica under one URL", () => {
    const ours = `{ engine: vllm, auth: { secret: T }, replicas: [{ url: "http://a:1", engine: sluice }] }`;
    expect(problems(ours)).toEqual(["pools.gpus.auth"]);
    const same = `{ engine: vllm, replicas: [{ url: "http://a:1/v1" }, { url: "http://a:1", engine: sluice }] }`;
    expect(problems(same)).toEqual(["pools.gpus.replicas.1.url"]);
    const unknown = `{ engine: vllm, replicas: [{ url: "http://a:1", engine: vlm }] }`;
    expect(problems(unknown)).toEqual(["pools.gpus.replicas.0.engine"]);
  });
});
