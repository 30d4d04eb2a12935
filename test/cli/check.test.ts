import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());

const LOCAL_FILE = new URL("../../sluice.local.yaml", import.meta.url).pathname;

function write(name: string, text: string): string {
  const file = join(folder.path, name);
  writeFileSync(file, text);
  return file;
}

const WRONG = `models:
  tiny: { context: 2048, pool: locl }
pools:
  local: { engine: sluice, replicas: [{ url: http://127.0.0.1:9101 }] }
tenants:
  acme:
    keys: [{ name: prod, hash: nonsense }]
    models: [tiny]
    class: interactive
`;

const RIGHT = `models: { tiny: { context: 2048, pool: local } }
pools: { local: { engine: sluice, replicas: [{ url: http://127.0.0.1:9101 }] } }
tenants:
  acme:
    keys:
      - { name: prod, hash: "hmac-sha256:${"a".repeat(64)}" }
      - { name: old, hash: "hmac-sha256:${"b".repeat(64)}", expires: 2020-01-01 }
    models: [tiny]
    class: interactive
`;

/** The same without the key that has expired. */
const CLEAN = RIGHT.replace(", expires: 2020-01-01", "");

/** What a new operator gets wrong, a mistake a place. */
const MISTAKES = `models:
  chat-8b: { context: 32KB, pool: gpus, upstream: meta-llama/Llama-3.1-8B-Instruct }
  small: { context: 8k, pool: gpsu }
pools:
  gpus: { engine: vlm, replicas: [{ url: "gpu-1.internal:8000" }], auth: { secret: GPU_POOL_TOKEN } }
classes:
  voice: { ttft: { p99: 300 }, tpot: { p99: 25ms }, tbt_max: 200ms }
tenants:
  acme:
    keys: [{ name: prod, hash: "hmac-sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", expires: 30.6.2027 }]
    models: [chat-8b]
    class: vocie
    share: { weight: 4, guaranteed: 0.2 }
    limits: { concurrency: many, tokens_per_minut: 400k }
    attempts: 7
    timeouts: { total: soon }
    overload: [{ queue: 60% }, { fallback_model: nano }, reject]
  globex:
    keys: [{ name: app, key: sk-plain }]
    models: [chat-8b]
    class: interactive
    cache: { scope: everybody }
    cors: { origins: ["app.example"] }
`;

describe("sluice check", () => {
  test("the bundled local configuration is right, for a local gateway only", async () => {
    expect(await runRecorded("check", "--local", LOCAL_FILE)).toEqual({
      exitCode: 0,
      stdout: `${LOCAL_FILE} is right`,
      stderr: "",
    });
    expect((await runRecorded("check", LOCAL_FILE)).exitCode).toBe(1);
  });

  test("every problem is told at once, with its line, its path and what was found", async () => {
    const file = write("wrong.yaml", WRONG);
    const { exitCode, stdout, stderr } = await runRecorded("check", file);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    const [pool, hash, ...others] = stderr.split("\n");
    expect(pool).toMatch(`${file}:2 models.tiny.pool: expected`);
    expect(pool).toContain("locl");
    expect(hash).toMatch(`${file}:7 tenants.acme.keys[0].hash: expected`);
    expect(others).toEqual([]);
  });

  test("sixteen mistakes of a newcomer are told at once, each with its place, its value and what would be right", async () => {
    const file = write("mistakes.yaml", MISTAKES);
    const { exitCode, stdout, stderr } = await runRecorded("check", file);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    expect(stderr.split("\n").map((line) => line.replace(`${file}:`, ""))).toEqual([
      '2 models.chat-8b.context: expected a number of tokens from 1 to 10000000, such as 64 or 1k, found "32KB"',
      "3 models.small.pool: expected the name of a pool, found \"gpsu\": did you mean 'gpus'?",
      "5 pools.gpus.engine: expected one of sluice, vllm, sglang, trtllm, tgi, llamacpp, dynamo, ollama, openai, " +
        "found \"vlm\": did you mean 'vllm'?",
      "5 pools.gpus.replicas[0].url: expected a URL such as http://10.0.0.7:9101, without credentials, query or " +
        'fragment, found "gpu-1.internal:8000"',
      "7 classes.voice.ttft.p99: expected a duration such as 300ms, 8s or 2m, found 300",
      '10 tenants.acme.keys[0].expires: expected a date such as 2027-06-30, found "30.6.2027"',
      "12 tenants.acme.class: expected the name of a class, found \"vocie\": did you mean 'voice'?",
      "13 tenants.acme.share.guaranteed: expected a share of at most 90%, such as 20% or 0.5%, found 0.2",
      "14 tenants.acme.limits.concurrency: expected a number of requests from 1 to 100000, such as 64 or 1k, " +
        'found "many"',
      "14 tenants.acme.limits.tokens_per_minut: unknown key \"tokens_per_minut\": did you mean 'tokens_per_minute'?",
      "15 tenants.acme.attempts: expected a number of attempts from 2 to 4, found 7",
      '16 tenants.acme.timeouts.total: expected a duration from 10ms to 10m, such as 120s, found "soon"',
      '17 tenants.acme.overload[1].fallback_model: expected the name of a model, found "nano": known: chat-8b, small',
      "19 tenants.globex.keys[0].key: expected a hash: plain keys are for local mode only",
      '22 tenants.globex.cache.scope: expected tenant or user, found "everybody"',
      "23 tenants.globex.cors.origins[0]: expected an origin such as https://app.example, in lower case and without " +
        'a path, found "app.example"',
    ]);
  });

  test("--json gives the same problems to programs", async () => {
    const file = write("wrong.yaml", WRONG);
    const { exitCode, stdout, stderr } = await runRecorded("check", "--json", file);
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: "" });
    expect(JSON.parse(stdout)).toEqual({
      file,
      ok: false,
      problems: [
        { file, line: 2, path: "models.tiny.pool", message: expect.stringContaining("locl") },
        { file, line: 7, path: "tenants.acme.keys[0].hash", message: expect.any(String) },
      ],
      warnings: [],
    });
  });

  test("a key that is there twice is named, and hides nothing else", async () => {
    const file = write("twice.yaml", `${WRONG}  acme: { keys: [], models: [tiny], class: none }\n`);
    const { exitCode, stderr } = await runRecorded("check", file);
    expect(exitCode).toBe(1);
    const lines = stderr.split("\n");
    expect(lines).toContain(`${file}:10 tenants.acme: the key is there twice: first on line 6`);
    expect(lines.some((line) => line.startsWith(`${file}:2 models.tiny.pool: `))).toBe(true);
    expect(lines.some((line) => line.startsWith(`${file}:10 tenants.acme.class: `))).toBe(true);
  });

  test("a repeated key alone is enough to refuse a file", async () => {
    const file = write("repeated.yaml", CLEAN.replace("context:", "context: 1024, context:"));
    expect(await runRecorded("check", file)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: `${file}:1 models.tiny.context: the key is there twice: first on line 1`,
    });
  });

  test("a spend over a model that has no price is told with what is missing", async () => {
    const file = write("unpriced.yaml", `${CLEAN}    limits: { spend_per_month: 250 }\n`);
    expect(await runRecorded("check", file)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr:
        `${file}:8 tenants.acme.models[0]: expected a model with a price, since limits has ` +
        "spend_per_month: models.tiny.price_per_million_tokens is missing",
    });
  });

  test("a price or a spend in words is told with what would be right", async () => {
    const wrong = CLEAN.replace(
      "pool: local }",
      "pool: local, price_per_million_tokens: { input: 1, outptu: 2, output: $3 } }",
    );
    const file = write("words.yaml", `${wrong}    limits: { spend_per_month: 1k }\n`);
    const { exitCode, stderr } = await runRecorded("check", file);
    expect(exitCode).toBe(1);
    expect(stderr.split("\n").toSorted()).toEqual([
      `${file}:1 models.tiny.price_per_million_tokens.outptu: unknown key "outptu": did you mean 'output'?`,
      `${file}:1 models.tiny.price_per_million_tokens.output: expected an amount from 0 to 1000000 ` +
        'with at most 6 decimals, such as 0.15, found "$3"',
      `${file}:10 tenants.acme.limits.spend_per_month: expected an amount from 0.000001 to 1000000000 ` +
        'with at most 6 decimals, such as 250 or 99.50, found "1k"',
    ]);
  });

  test("answers that cannot go on elsewhere although their tenant wants that are a warning", async () => {
    const mixed = RIGHT.replace("engine: sluice", "engine: openai")
      .replace("    class: interactive", "    class: interactive\n    continuation: true")
      .replace(", expires: 2020-01-01", "");
    const file = write("continuation.yaml", mixed);
    const message = "answers of tiny do not go on elsewhere: only replicas of engine sluice can";
    expect(await runRecorded("check", file)).toEqual({
      exitCode: 0,
      stdout: `${file} is right`,
      stderr: `Warning: ${file}:10 tenants.acme.continuation: ${message}`,
    });
  });

  test("what tenants have from the defaults is warned of once, with all their models", async () => {
    const pools = "pools: { gpus: { engine: vllm, replicas: [{ url: http://127.0.0.1:9101 }] } }";
    const models = "a: { context: 2k, pool: gpus }, b: { context: 2k, pool: gpus }";
    const tenants = ["a", "b", "a"].map((model, at) => `t${at}: { models: [${model}], keys: [] }`);
    const text = `models: { ${models} }
${pools}
defaults: { continuation: true, class: standard }
tenants: { ${tenants.join(", ")} }
`;
    const file = write("inherited.yaml", text);
    const { stderr } = await runRecorded("check", file);
    expect(stderr.split("\n").filter((line) => line.startsWith("Warning"))).toEqual([
      `Warning: ${file}:3 defaults.continuation: answers of a, b do not go on elsewhere: ` +
        "only replicas of engine sluice can",
    ]);
  });

  test("a key that has expired is a warning with its line, and the file is right", async () => {
    const file = write("expired.yaml", RIGHT);
    const warning = {
      file,
      line: 7,
      path: "tenants.acme.keys[1].expires",
      message: "this key has expired already, so requests with it are refused",
    };
    expect(await runRecorded("check", file)).toEqual({
      exitCode: 0,
      stdout: `${file} is right`,
      stderr: `Warning: ${file}:7 ${warning.path}: ${warning.message}`,
    });
    const { stdout } = await runRecorded("check", file, "--json");
    expect(JSON.parse(stdout)).toEqual({ file, ok: true, problems: [], warnings: [warning] });
  });

  test("warnings are told beside what is wrong", async () => {
    const file = write("both.yaml", `${RIGHT}    bogus: 1\n`);
    const { exitCode, stderr } = await runRecorded("check", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('unknown key "bogus"');
    expect(stderr).toContain(
      `Warning: ${file}:7 tenants.acme.keys[1].expires: this key has expired`,
    );
    const { stdout } = await runRecorded("check", file, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      problems: [expect.anything()],
      warnings: [expect.anything()],
    });
  });

  test.each([
    ["vllm", "", true],
    ["sluice", "", false],
    // One of ours among them can go on with an answer.
    ["vllm", ", engine: sluice", false],
  ])("of a pool of %s%s it is told that answers cannot go on: %s", async (engine, own, isTold) => {
    const text = RIGHT.replace("engine: sluice", `engine: ${engine}`)
      .replace("9101 }", `9101${own} }`)
      .replace("    class: interactive", "    class: interactive\n    continuation: true");
    const { stderr } = await runRecorded("check", write("engines.yaml", text));
    expect(stderr.includes("do not go on elsewhere")).toBe(isTold);
  });

  test("a text that is not YAML is told by its lines", async () => {
    const file = write("torn.yaml", "models:\n  tiny: { context: 2048\npools: {}\n");
    const { exitCode, stderr } = await runRecorded("check", file);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(new RegExp(`^${file}:3: `));
  });

  test("a file that is not there, or that nobody would write, is told as such", async () => {
    const missing = await runRecorded("check", join(folder.path, "nowhere.yaml"));
    expect(missing.exitCode).toBe(1);
    expect(missing.stderr).toContain("ENOENT");
    const huge = await runRecorded("check", write("huge.yaml", "#".repeat(33_554_433)));
    expect(huge.stderr).toContain(
      "expected at most 33554432 bytes of configuration, found 33554433",
    );
    expect((await runRecorded("check", folder.path)).exitCode).toBe(1);
  });

  test("an empty file is not a configuration", async () => {
    const { exitCode, stderr } = await runRecorded("check", write("empty.yaml", ""));
    expect(exitCode).toBe(1);
    expect(stderr).toContain("empty.yaml:1");
  });
});
